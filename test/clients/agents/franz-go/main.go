// An agent on franz-go; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type task struct {
	Role, Bootstrap, Topic, Group, Protocol, Compression, ID, Output string
	From                                                             int
	Count                                                            *int
}

var (
	do       task
	out      sync.Mutex
	stopping = make(chan struct{})
)

func show(key string, value any) {
	line, _ := json.Marshal(map[string]any{key: value})
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func stopped() bool {
	select {
	case <-stopping:
		return true
	default:
		return false
	}
}

func codec() kgo.CompressionCodec {
	switch do.Compression {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func client(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(do.Bootstrap, ",")...),
		kgo.ClientID("franz-go"),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, more...)
}

func produce(ctx context.Context) {
	c, err := kgo.NewClient(client(kgo.DefaultProduceTopic(do.Topic), kgo.ProducerBatchCompression(codec()))...)
	check(err)
	for at := do.From; !stopped() && (do.Count == nil || at < do.From+*do.Count); at += 10 {
		size := 10
		if do.Count != nil {
			size = min(size, do.From+*do.Count-at)
		}
		for i := range size {
			value := fmt.Sprint(at + i)
			c.Produce(ctx, &kgo.Record{Key: []byte(value), Value: []byte(value),
				Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(value)}}}, func(r *kgo.Record, err error) {
				check(err)
				show("acked", []string{string(r.Value)})
			})
		}
		if do.Count == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	check(c.Flush(ctx))
	c.Close()
}

func group() []kgo.Opt {
	owned := map[int32]bool{}
	var lock sync.Mutex
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			for _, p := range changed[do.Topic] {
				if has {
					owned[p] = true
				} else {
					delete(owned, p)
				}
			}
			list := []int32{}
			for p := range owned {
				list = append(list, p)
			}
			slices.Sort(list)
			show("assigned", list)
		}
	}
	opts := client(kgo.ConsumerGroup(do.Group), kgo.ConsumeTopics(do.Topic), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.BlockRebalanceOnPoll())
	if do.Protocol == "consumer" {
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
}

func consume(ctx context.Context) {
	opts := group()
	c, err := kgo.NewClient(append(opts, kgo.DisableAutoCommit())...)
	check(err)
	for !stopped() {
		poll, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := c.PollRecords(poll, 100)
		cancel()
		fetches.EachRecord(func(r *kgo.Record) { show("got", []any{r.Partition, r.Offset, string(r.Value)}) })
		if fetches.NumRecords() > 0 {
			if err := c.CommitUncommittedOffsets(ctx); err != nil {
				show("refused", err.Error())
			}
		}
		c.AllowRebalance()
	}
	c.CloseAllowingRebalance()
}

func transact(ctx context.Context) {
	opts := group()
	s, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(do.ID), kgo.RequireStableFetchOffsets())...)
	check(err)
	for !stopped() {
		poll, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := s.PollRecords(poll, 10)
		cancel()
		if fetches.NumRecords() == 0 {
			s.AllowRebalance()
			continue
		}
		values := []string{}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		wrong, err := kgo.NewClient(client(kgo.TransactionalID(do.ID + "-wrong"))...)
		check(err)
		check(wrong.BeginTransaction())
		check(wrong.ProduceSync(ctx, &kgo.Record{Topic: do.Output, Value: []byte("aborted-" + values[0])}).FirstErr())
		check(wrong.EndTransaction(ctx, kgo.TryAbort))
		wrong.Close()
		check(s.Begin())
		fetches.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Topic: do.Output, Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) { check(err) })
		})
		committed, err := s.End(ctx, kgo.TryCommit)
		check(err)
		if committed {
			show("moved", values)
		}
		s.AllowRebalance()
	}
	s.CloseAllowingRebalance()
}

func main() {
	check(json.Unmarshal([]byte(os.Args[1]), &do))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stopping)
	}()
	map[string]func(context.Context){"produce": produce, "consume": consume, "transact": transact}[do.Role](context.Background())
}
