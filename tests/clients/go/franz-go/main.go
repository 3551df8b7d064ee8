// A consumer of franz-go, of either group protocol.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"time"

	"groupferry.tests/consumers/reports"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	pollTime       = 100 * time.Millisecond
	commitInterval = 500 * time.Millisecond
	commitLimit    = 10 * time.Second
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// consumer holds the next offsets of partitions that were consumed and not yet committed. Callbacks
// and the loop never run at once: the client may rebalance only when the loop allows it.
type consumer struct {
	topic       string
	uncommitted map[int32]kgo.EpochOffset
}

func main() {
	wanted := reports.ParseOptions()
	asked := reports.WhenAsked()
	own := &consumer{topic: wanted.Topic, uncommitted: map[int32]kgo.EpochOffset{}}
	client, err := kgo.NewClient(append(append(groupOptions(wanted), securityOptions(wanted)...),
		kgo.SeedBrokers(wanted.Bootstrap...),
		kgo.ClientID(wanted.ClientID),
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(own.onAssigned),
		kgo.OnPartitionsRevoked(own.onRevoked),
		kgo.OnPartitionsLost(own.onLost),
	)...)
	if err != nil {
		reports.Fail(err)
	}
	own.consume(client, asked)
	client.CloseAllowingRebalance()
	reports.Closed()
}

// securityOptions are TLS and SCRAM.
func securityOptions(wanted reports.Options) []kgo.Opt {
	if len(wanted.Security) == 0 {
		return nil
	}
	pem, err := os.ReadFile(wanted.Security["ca"])
	if err != nil {
		reports.Fail(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	login := scram.Auth{User: wanted.Security["username"], Pass: wanted.Security["password"]}
	return []kgo.Opt{
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
		kgo.SASL(login.AsSha256Mechanism()),
	}
}

func groupOptions(wanted reports.Options) []kgo.Opt {
	if wanted.Protocol == "consumer" {
		return nativeOptions()
	}
	var found []kgo.GroupBalancer
	for _, name := range wanted.Assignors {
		found = append(found, balancers[name])
	}
	return []kgo.Opt{
		kgo.Balancers(found...),
		kgo.SessionTimeout(wanted.SessionTimeout),
		kgo.HeartbeatInterval(500 * time.Millisecond),
	}
}

func (own *consumer) consume(client *kgo.Client, asked <-chan struct{}) {
	committed := time.Now()
	for {
		select {
		case <-asked:
			return
		default:
		}
		limit, cancel := context.WithTimeout(context.Background(), pollTime)
		fetches := client.PollFetches(limit)
		fetches.EachError(func(_ string, _ int32, err error) {
			if limit.Err() == nil {
				reports.Troubled("consume", err)
			}
		})
		cancel()
		fetches.EachRecord(func(record *kgo.Record) {
			reports.Consumed(record.Partition, record.Value)
			next := kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
			own.uncommitted[record.Partition] = next
		})
		if time.Since(committed) >= commitInterval {
			committed = time.Now()
			own.commit(client, own.uncommitted)
		}
		client.AllowRebalance()
	}
}

func (own *consumer) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	reports.Assigned(added[own.topic])
}

func (own *consumer) onRevoked(_ context.Context, client *kgo.Client, gone map[string][]int32) {
	wanted := map[int32]kgo.EpochOffset{}
	for _, partition := range gone[own.topic] {
		if offset, ok := own.uncommitted[partition]; ok {
			wanted[partition] = offset
		}
	}
	own.commit(client, wanted)
	own.forget(gone[own.topic])
	reports.Revoked(gone[own.topic])
}

func (own *consumer) onLost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	own.forget(gone[own.topic])
	reports.Lost(gone[own.topic])
}

func (own *consumer) forget(partitions []int32) {
	for _, partition := range partitions {
		delete(own.uncommitted, partition)
	}
}

// commit waits for the answer. What is refused the next owner consumes again.
func (own *consumer) commit(client *kgo.Client, offsets map[int32]kgo.EpochOffset) {
	if len(offsets) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(context.Background(), commitLimit)
	defer cancel()
	client.CommitOffsetsSync(limit, map[string]map[int32]kgo.EpochOffset{own.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				reports.Troubled("commit", err)
				return
			}
			pairs := [][2]int64{}
			for _, each := range answer.Topics[0].Partitions {
				if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
					reports.Troubled("commit", err)
					continue
				}
				pairs = append(pairs, [2]int64{int64(each.Partition), offsets[each.Partition].Offset})
			}
			reports.Committed(pairs)
			for _, pair := range pairs {
				delete(own.uncommitted, int32(pair[0]))
			}
		})
}
