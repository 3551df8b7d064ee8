//go:build !classic

package main

import "github.com/twmb/franz-go/pkg/kgo"

// nativeOptions ask for the new protocol. The coordinator's assignor goes by the balancer's name.
func nativeOptions() []kgo.Opt {
	return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
}
