// A producer of segmentio's kafka-go, as librdkafka_producer.py, but for transactions, which its
// writer does not have.
//
// kafka-go-producer BOOTSTRAP PREFIX CODEC...
package main

import (
	"context"
	"os"
	"strings"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func main() {
	text := strings.Repeat("compressible text ", 5_000)
	longText := strings.Repeat("compressible text ", 110_000)
	for _, codec := range os.Args[3:] {
		writer := &kafka.Writer{
			Addr:         kafka.TCP(strings.Split(os.Args[1], ",")...),
			Topic:        os.Args[2] + "-" + codec,
			Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
			BatchSize:    1,
			BatchBytes:   4_000_000,
			RequiredAcks: kafka.RequireAll,
			Compression:  codecs[codec],
		}
		write(writer, text)
		if codec != "none" {
			write(writer, longText)
		}
		check(writer.Close())
	}
}

func write(writer *kafka.Writer, text string) {
	check(writer.WriteMessages(context.Background(), kafka.Message{Value: []byte(text)}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
