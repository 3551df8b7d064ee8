//go:build classic

package main

import "github.com/twmb/franz-go/pkg/kgo"

// nativeOptions are none: franz-go has the new protocol since 1.22.
func nativeOptions() []kgo.Opt {
	panic("this franz-go is too old for the new protocol")
}
