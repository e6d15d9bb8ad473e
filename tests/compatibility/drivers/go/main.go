// Go clients as a driver: `driver LIBRARY BOOTSTRAP`. Calls and answers are lines of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

type record struct {
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
	Timestamp *int64      `json:"timestamp"`
}

// call holds every argument that any call has.
type call struct {
	Call, Name, Topic, Group, Consumer, Client, Kind string
	Partition                                               int32
	Partitions, Total                                       int
	Replication                                             int16
	Offset, Timestamp                                       int64
	TimeoutMs                                               int `json:"timeout_ms"`
	Topics                                                  []string
	Records                                                 []record
	Replicas                                                []int32
	Config                                                  map[string]any
	Value                                                   *float64
	Incremental                                             bool
}

type seen struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
	Timestamp int64       `json:"timestamp"`
	Type      *int        `json:"timestamp_type"`
}

type polled struct {
	Records    []seen  `json:"records"`
	Assignment []int32 `json:"assignment"`
}

type handler func(in call) (any, error)

// unsupported is what the library lacks, in words for the table.
type unsupported string

func (u unsupported) Error() string { return string(u) }

func main() {
	library, bootstrap := os.Args[1], strings.Split(os.Args[2], ",")
	libraries := map[string]func([]string) map[string]handler{
		"franz": franz, "sarama": saramaWith(sarama.DefaultVersion), "sarama-newest": saramaWith(sarama.MaxVersion),
	}
	handlers := libraries[library](bootstrap)
	calls := bufio.NewReaderSize(os.Stdin, 1<<24)
	for {
		line, err := calls.ReadBytes('\n')
		if err != nil {
			return
		}
		var in call
		answer := map[string]any{}
		if err := json.Unmarshal(line, &in); err != nil {
			answer["error"] = fmt.Sprintf("the driver cannot read the call: %v", err)
		} else if handle, found := handlers[in.Call]; !found {
			answer["unsupported"] = "the library has no call for it (" + in.Call + ")"
		} else {
			result, err := handle(in)
			var lacks unsupported
			switch {
			case errors.As(err, &lacks):
				answer["unsupported"] = string(lacks)
			case err != nil:
				answer["error"] = err.Error()
			default:
				answer["result"] = result
			}
		}
		out, _ := json.Marshal(answer)
		os.Stdout.Write(append(out, '\n'))
	}
}

func (in call) text(key string) string {
	value, _ := in.Config[key].(string)
	return value
}

func (in call) has(key string) bool {
	_, found := in.Config[key]
	return found
}

func (in call) number(key string) int {
	value, _ := in.Config[key].(float64)
	return int(value)
}

func (in call) settings() map[string]*string {
	found := map[string]*string{}
	for key, value := range in.Config {
		text := fmt.Sprint(value)
		found[key] = &text
	}
	return found
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func textOf(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}
