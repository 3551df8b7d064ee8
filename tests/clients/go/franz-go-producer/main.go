// A producer of franz-go, as librdkafka_producer.py.
//
// franz-go-producer BOOTSTRAP PREFIX CODEC...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	text := strings.Repeat("compressible text ", 5_000)
	longText := strings.Repeat("compressible text ", 110_000)
	for _, codec := range os.Args[3:] {
		topic := os.Args[2] + "-" + codec
		settings := []kgo.Opt{
			kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
			kgo.ProducerBatchCompression(codecs[codec]),
			kgo.ProducerBatchMaxBytes(4_000_000),
			kgo.BrokerMaxWriteBytes(8_000_000),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
		}
		plain := client(settings)
		check(produce(ctx, plain, topic, text))
		if codec != "none" {
			check(produce(ctx, plain, topic, longText))
		}
		plain.Close()
		transactional := client(append(settings, kgo.TransactionalID(topic)))
		check(transactional.BeginTransaction())
		check(produce(ctx, transactional, topic, text))
		check(transactional.EndTransaction(ctx, kgo.TryCommit))
		transactional.Close()
		if codec == "none" {
			checkFencing(ctx, append(settings, kgo.TransactionalID(topic+"-fenced")), topic)
		}
	}
}

// checkFencing fails unless the first of two producers with one transactional id is fenced.
func checkFencing(ctx context.Context, settings []kgo.Opt, topic string) {
	first, second := client(settings), client(settings)
	defer first.Close()
	defer second.Close()
	check(first.BeginTransaction())
	record := &kgo.Record{Topic: topic, Partition: 1, Value: []byte("fenced")}
	check(first.ProduceSync(ctx, record).FirstErr())
	_, _, err := second.ProducerID(ctx)
	check(err)
	err = first.EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		panic(fmt.Sprint("the first producer was not fenced: ", err))
	}
}

func client(settings []kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(settings...)
	check(err)
	return made
}

func produce(ctx context.Context, client *kgo.Client, topic, text string) error {
	record := &kgo.Record{Topic: topic, Value: []byte(text)}
	return client.ProduceSync(ctx, record).FirstErr()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
