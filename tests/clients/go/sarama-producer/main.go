// A producer of sarama, as librdkafka_producer.py.
//
// sarama-producer BOOTSTRAP PREFIX CODEC...
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func main() {
	brokers := strings.Split(os.Args[1], ",")
	text := strings.Repeat("compressible text ", 5_000)
	longText := strings.Repeat("compressible text ", 110_000)
	for _, codec := range os.Args[3:] {
		topic := os.Args[2] + "-" + codec
		settings := sarama.NewConfig()
		settings.Version = sarama.V2_1_0_0
		settings.Net.MaxOpenRequests = 1
		settings.Producer.Idempotent = true
		settings.Producer.RequiredAcks = sarama.WaitForAll
		settings.Producer.Return.Successes = true
		settings.Producer.Compression = codecs[codec]
		settings.Producer.MaxMessageBytes = 4_000_000
		settings.Producer.Partitioner = sarama.NewManualPartitioner
		plain := producer(brokers, settings)
		produce(plain, topic, text)
		if codec != "none" {
			produce(plain, topic, longText)
		}
		check(plain.Close())
		settings.Producer.Transaction.ID = topic
		transactional := producer(brokers, settings)
		check(transactional.BeginTxn())
		produce(transactional, topic, text)
		check(transactional.CommitTxn())
		check(transactional.Close())
		if codec == "none" {
			settings.Producer.Transaction.ID = topic + "-fenced"
			checkFencing(brokers, settings, topic)
		}
	}
}

// checkFencing fails unless the first of two producers with one transactional id is fenced.
func checkFencing(brokers []string, settings *sarama.Config, topic string) {
	first := producer(brokers, settings)
	check(first.BeginTxn())
	record := &sarama.ProducerMessage{Topic: topic, Partition: 1, Value: sarama.StringEncoder("fenced")}
	_, _, err := first.SendMessage(record)
	check(err)
	second := producer(brokers, settings)
	err = first.CommitTxn()
	if !errors.Is(err, sarama.ErrProducerFenced) && !errors.Is(err, sarama.ErrInvalidProducerEpoch) {
		panic(fmt.Sprint("the first producer was not fenced: ", err))
	}
	check(second.Close())
}

func producer(brokers []string, settings *sarama.Config) sarama.SyncProducer {
	made, err := sarama.NewSyncProducer(brokers, settings)
	check(err)
	return made
}

func produce(producer sarama.SyncProducer, topic, text string) {
	_, _, err := producer.SendMessage(
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(text)})
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
