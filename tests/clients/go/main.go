// A consumer of franz-go, of either group protocol. It reports in the words of
// gateway/demo/reports.py: one JSON object per line, times in seconds of CLOCK_MONOTONIC.
package main

import (
	"context"
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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pollTime       = 100 * time.Millisecond
	commitInterval = 500 * time.Millisecond
	commitLimit    = 10 * time.Second
	closeLimit     = 15 * time.Second
	clockMonotonic = 1
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

var (
	bootstrap = flag.String("bootstrap", "", "")
	topic     = flag.String("topic", "", "")
	group     = flag.String("group", "", "")
	clientID  = flag.String("client-id", "", "")
	protocol  = flag.String("protocol", "classic", "")
	assignor  = flag.String("assignor", "range", "")
)

// offsets are the next ones of partitions that were consumed and not yet committed. Callbacks and
// the loop never run at once: the client may rebalance only when the loop allows it.
type offsets map[int32]kgo.EpochOffset

func main() {
	flag.Parse()
	uncommitted := offsets{}
	options := append(groupOptions(),
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.ClientID(*clientID),
		kgo.ConsumerGroup(*group),
		kgo.ConsumeTopics(*topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			report("assigned", added)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, gone map[string][]int32) {
			uncommitted.commit(client, gone[*topic])
			uncommitted.forget(gone[*topic])
			report("revoked", gone)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			uncommitted.forget(gone[*topic])
			report("lost", gone)
		}),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	consume(client, uncommitted, whenAsked())
	client.CloseAllowingRebalance()
	say("closed", nil)
}

// groupOptions are those of the protocol.
func groupOptions() []kgo.Opt {
	if *protocol == "consumer" {
		return nativeOptions()
	}
	var wanted []kgo.GroupBalancer
	for _, name := range strings.Split(*assignor, ",") {
		wanted = append(wanted, balancers[name])
	}
	return []kgo.Opt{
		kgo.Balancers(wanted...),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
	}
}

func consume(client *kgo.Client, uncommitted offsets, asked <-chan struct{}) {
	committed := time.Now()
	for {
		select {
		case <-asked:
			return
		default:
		}
		limit, cancel := context.WithTimeout(context.Background(), pollTime)
		fetches := client.PollFetches(limit)
		cancel()
		fetches.EachPartition(func(partition kgo.FetchTopicPartition) {
			partition.EachRecord(func(record *kgo.Record) { uncommitted.take(record) })
		})
		fetches.EachError(func(_ string, _ int32, err error) {
			if limit.Err() == nil {
				troubled("consume", err)
			}
		})
		if time.Since(committed) >= commitInterval {
			committed = time.Now()
			uncommitted.commit(client, uncommitted.partitions())
		}
		client.AllowRebalance()
	}
}

func (uncommitted offsets) take(record *kgo.Record) {
	number, err := strconv.ParseInt(string(record.Value), 10, 64)
	if err != nil {
		troubled("consume", err)
		return
	}
	runs := [][]int64{{number, number + 1, 1}}
	say("consumed", map[string]any{"partition": record.Partition, "runs": runs})
	uncommitted[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
}

func (uncommitted offsets) partitions() []int32 {
	var found []int32
	for partition := range uncommitted {
		found = append(found, partition)
	}
	return found
}

func (uncommitted offsets) forget(partitions []int32) {
	for _, partition := range partitions {
		delete(uncommitted, partition)
	}
}

// commit waits for the answer. What is refused the next owner consumes again.
func (uncommitted offsets) commit(client *kgo.Client, partitions []int32) {
	wanted := map[int32]kgo.EpochOffset{}
	for _, partition := range partitions {
		if offset, ok := uncommitted[partition]; ok {
			wanted[partition] = offset
		}
	}
	if len(wanted) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(context.Background(), commitLimit)
	defer cancel()
	client.CommitOffsetsSync(limit, map[string]map[int32]kgo.EpochOffset{*topic: wanted},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				troubled("commit", err)
				return
			}
			pairs := [][]int64{}
			for _, each := range answer.Topics[0].Partitions {
				if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
					troubled("commit", err)
					continue
				}
				pairs = append(pairs, []int64{int64(each.Partition), wanted[each.Partition].Offset})
				delete(uncommitted, each.Partition)
			}
			say("committed", map[string]any{"offsets": pairs})
		})
}

// whenAsked is closed at the end of stdin or on SIGTERM. The end of stdin is also how the process
// learns that its parent died; then it may not hang.
func whenAsked() <-chan struct{} {
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

func report(kind string, partitions map[string][]int32) {
	if mine := partitions[*topic]; len(mine) > 0 {
		say(kind, map[string]any{"partitions": mine})
	}
}

func troubled(doing string, err error) {
	say("troubled", map[string]any{"doing": doing, "error": err.Error()})
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
