// A producer of sarama, as librdkafka_producer.py.
//
// sarama-producer BOOTSTRAP PREFIX CODEC...
package main

import (
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
	}
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
