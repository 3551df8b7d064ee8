// A consumer of sarama, classic protocol only.
package main

import (
	"context"
	"time"

	"groupferry.tests/consumers/reports"

	"github.com/IBM/sarama"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

// handler owns a partition as long as its claim is being consumed. Sarama does not say whether a
// commit was acknowledged.
type handler struct{}

func main() {
	wanted := reports.ParseOptions()
	running, cancel := context.WithCancel(context.Background())
	asked := reports.WhenAsked()
	go func() { <-asked; cancel() }()
	group, err := sarama.NewConsumerGroup(wanted.Bootstrap, wanted.Group, configuration(wanted))
	if err != nil {
		reports.Fail(err)
	}
	go func() {
		for err := range group.Errors() {
			reports.Troubled("consume", err)
		}
	}()
	for running.Err() == nil {
		if err := group.Consume(running, []string{wanted.Topic}, handler{}); err != nil {
			reports.Troubled("consume", err)
		}
	}
	group.Close()
	reports.Closed()
}

func configuration(wanted reports.Options) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = wanted.ClientID
	config.Version = sarama.V2_8_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 500 * time.Millisecond
	config.Consumer.MaxWaitTime = 250 * time.Millisecond
	config.Consumer.Group.Session.Timeout = wanted.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	// NewConfig lists range already: a strategy listed twice is one that no member supports.
	config.Consumer.Group.Rebalance.GroupStrategies = nil
	for _, name := range wanted.Assignors {
		config.Consumer.Group.Rebalance.GroupStrategies = append(
			config.Consumer.Group.Rebalance.GroupStrategies, strategies[name]())
	}
	return config
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	mine := []int32{claim.Partition()}
	reports.Assigned(mine)
	for record := range claim.Messages() {
		reports.Consumed(record.Partition, record.Value)
		session.MarkMessage(record, "")
	}
	session.Commit()
	reports.Revoked(mine)
	return nil
}
