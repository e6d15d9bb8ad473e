// The program under test: sends records until its standard input ends, and prints each value that was acknowledged.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")...),
		kgo.DefaultProduceTopic(os.Getenv("KAFKA_TOPIC")),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MetadataMinAge(100*time.Millisecond), // a new leader is asked for soon
	)
	if err != nil {
		log.Fatal(err)
	}
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()

	var lock sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	acknowledged := func(record *kgo.Record, err error) {
		if err != nil {
			log.Print(err) // nobody was told that it is safe
			return
		}
		lock.Lock()
		defer lock.Unlock()
		fmt.Fprintln(out, string(record.Value))
		out.Flush()
	}
	ticker := time.NewTicker(2 * time.Millisecond)
	for number := 0; ; number++ {
		select {
		case <-stop:
			if err := client.Flush(context.Background()); err != nil {
				log.Fatal(err)
			}
			client.Close()
			return
		case <-ticker.C:
			client.Produce(context.Background(), kgo.StringRecord(strconv.Itoa(number)), acknowledged)
		}
	}
}
