// Prints the state of a group and the lag of each of its partitions, as kadm sees them.
//
// kadm BOOTSTRAP GROUP
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	lags, err := kadm.NewClient(client).Lag(ctx, os.Args[2])
	if err != nil {
		panic(err)
	}
	group := lags[os.Args[2]]
	if err := group.Error(); err != nil {
		panic(err)
	}
	fmt.Println(group.State, group.ProtocolType, len(group.Members))
	for _, each := range group.Lag.Sorted() {
		fmt.Println(each.Topic, each.Partition, each.Member != nil, each.Commit.At, each.Lag)
	}
}
