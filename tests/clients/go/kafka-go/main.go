// A consumer of segmentio's kafka-go, classic protocol only.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"groupferry.tests/consumers/reports"

	"github.com/segmentio/kafka-go"
)

const commitInterval = 500 * time.Millisecond

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

func main() {
	wanted := reports.ParseOptions()
	running, cancel := context.WithCancel(context.Background())
	asked := reports.WhenAsked()
	go func() { <-asked; cancel() }()
	group, err := kafka.NewConsumerGroup(configuration(wanted))
	if err != nil {
		reports.Fail(err)
	}
	for running.Err() == nil {
		generation, err := group.Next(running)
		if err != nil {
			if running.Err() == nil {
				reports.Troubled("join", err)
			}
			continue
		}
		consume(running, generation, wanted)
	}
	group.Close()
	reports.Closed()
}

func configuration(wanted reports.Options) kafka.ConsumerGroupConfig {
	var found []kafka.GroupBalancer
	for _, name := range wanted.Assignors {
		found = append(found, balancers[name])
	}
	return kafka.ConsumerGroupConfig{
		ID:                wanted.Group,
		Brokers:           wanted.Bootstrap,
		Dialer:            &kafka.Dialer{ClientID: wanted.ClientID, Timeout: 10 * time.Second},
		Topics:            []string{wanted.Topic},
		GroupBalancers:    found,
		HeartbeatInterval: 500 * time.Millisecond,
		SessionTimeout:    wanted.SessionTimeout,
		RebalanceTimeout:  20 * time.Second,
		JoinGroupBackoff:  500 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	}
}

// consume reads every partition of a generation until it ends or the process is asked to.
func consume(running context.Context, generation *kafka.Generation, wanted reports.Options) {
	var partitions []int32
	var reading sync.WaitGroup
	for _, assigned := range generation.Assignments[wanted.Topic] {
		partitions = append(partitions, int32(assigned.ID))
	}
	reports.Assigned(partitions)
	ended := make(chan struct{})
	generation.Start(func(valid context.Context) {
		limit, cancel := context.WithCancel(valid)
		defer context.AfterFunc(running, cancel)()
		for _, assigned := range generation.Assignments[wanted.Topic] {
			reading.Add(1)
			go func() {
				defer reading.Done()
				read(limit, generation, wanted, assigned)
			}()
		}
		reading.Wait()
		<-limit.Done()
		reports.Revoked(partitions)
		close(ended)
	})
	<-ended
}

func read(
	limit context.Context,
	generation *kafka.Generation,
	wanted reports.Options,
	assigned kafka.PartitionAssignment,
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   wanted.Bootstrap,
		Topic:     wanted.Topic,
		Partition: assigned.ID,
		MaxWait:   250 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		reports.Troubled("seek", err)
	}
	committed, next := time.Now(), int64(-1)
	for {
		record, err := reader.ReadMessage(limit)
		if err == nil {
			reports.Consumed(int32(record.Partition), record.Value)
			next = record.Offset + 1
		} else if !errors.Is(err, context.Canceled) {
			reports.Troubled("consume", err)
		}
		isOver := limit.Err() != nil
		if next >= 0 && (isOver || time.Since(committed) >= commitInterval) {
			commit(generation, wanted.Topic, assigned.ID, next)
			committed, next = time.Now(), -1
		}
		if isOver {
			return
		}
	}
}

func commit(generation *kafka.Generation, topic string, partition int, next int64) {
	err := generation.CommitOffsets(map[string]map[int]int64{topic: {partition: next}})
	if err != nil {
		reports.Troubled("commit", err)
		return
	}
	reports.Committed([][2]int64{{int64(partition), next}})
}
