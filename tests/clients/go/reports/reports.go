// Package reports is what a consumer of the tests says to its parent: the words of
// gateway/demo/reports.py, one JSON object per line, times in seconds of CLOCK_MONOTONIC. And how it
// is started, and asked to end.
package reports

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	closeLimit     = 15 * time.Second
	clockMonotonic = 1
)

// Options are the command line that all consumers of the tests understand.
type Options struct {
	Bootstrap []string
	Topic     string
	Group     string
	ClientID  string
	Protocol  string
	Assignors []string
	// SessionTimeout is that of a classic member.
	SessionTimeout time.Duration
	// Security has the names ca, username and password. It is empty without TLS and SCRAM.
	Security map[string]string
}

// ParseOptions reads the command line.
func ParseOptions() Options {
	bootstrap := flag.String("bootstrap", "", "")
	topic := flag.String("topic", "", "")
	group := flag.String("group", "", "")
	clientID := flag.String("client-id", "", "")
	protocol := flag.String("protocol", "classic", "")
	assignor := flag.String("assignor", "range", "")
	sessionTimeoutMs := flag.Int("session-timeout-ms", 6000, "")
	security := flag.String("security", "", "")
	flag.Parse()
	return Options{
		Bootstrap:      strings.Split(*bootstrap, ","),
		Topic:          *topic,
		Group:          *group,
		ClientID:       *clientID,
		Protocol:       *protocol,
		Assignors:      strings.Split(*assignor, ","),
		SessionTimeout: time.Duration(*sessionTimeoutMs) * time.Millisecond,
		Security:       readSecurity(*security),
	}
}

func readSecurity(path string) map[string]string {
	found := map[string]string{}
	if path == "" {
		return found
	}
	lines, err := os.ReadFile(path)
	if err != nil {
		Fail(err)
	}
	for _, line := range strings.Split(string(lines), "\n") {
		name, value, _ := strings.Cut(line, "=")
		found[name] = value
	}
	return found
}

// Assigned says which partitions were added to those that are owned.
func Assigned(partitions []int32) { owned("assigned", partitions) }

// Revoked says which were given up.
func Revoked(partitions []int32) { owned("revoked", partitions) }

// Lost says which the coordinator had given to somebody else.
func Lost(partitions []int32) { owned("lost", partitions) }

func owned(kind string, partitions []int32) {
	if len(partitions) > 0 {
		say(kind, map[string]any{"partitions": partitions})
	}
}

// Consumed says which record was handed to the application: the value is its number.
func Consumed(partition int32, value []byte) {
	number, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		Troubled("consume", err)
		return
	}
	runs := [][]int64{{number, number + 1, 1}}
	say("consumed", map[string]any{"partition": partition, "runs": runs})
}

// Committed says what the coordinator acknowledged: pairs of partition and next offset.
func Committed(pairs [][2]int64) { say("committed", map[string]any{"offsets": pairs}) }

// Troubled says what the library complained of.
func Troubled(doing string, err error) {
	say("troubled", map[string]any{"doing": doing, "error": err.Error()})
}

// Closed says that nothing is owned any more, and in good order.
func Closed() { say("closed", nil) }

// Fail ends the process.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// WhenAsked is closed at the end of stdin or on SIGTERM. The end of stdin is also how the process
// learns that its parent died; then it may not hang.
func WhenAsked() <-chan struct{} {
	asked := make(chan struct{})
	var once sync.Once
	ask := func() {
		once.Do(func() {
			close(asked)
			time.AfterFunc(closeLimit, func() { os.Exit(1) })
		})
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() { <-signals; ask() }()
	go func() { io.Copy(io.Discard, os.Stdin); ask() }()
	return asked
}

var speaking sync.Mutex

func say(kind string, fields map[string]any) {
	speaking.Lock()
	defer speaking.Unlock()
	line := map[string]any{"kind": kind, "at_s": monotonic()}
	for name, value := range fields {
		line[name] = value
	}
	json.NewEncoder(os.Stdout).Encode(line)
}

// monotonic is the clock that all processes of a machine share; Go's own has a start of its own.
func monotonic() float64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Sec) + float64(now.Nsec)/1e9
}
