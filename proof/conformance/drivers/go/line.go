package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"outlive"
)

func number(word string) uint64 {
	number, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// until returns a context of milliseconds, or one that does not wait.
func until(word string) (context.Context, context.CancelFunc) {
	if word == "try" {
		return outlive.NoWait, func() {}
	}
	return context.WithTimeout(context.Background(), milliseconds(word))
}

func milliseconds(word string) time.Duration { return time.Duration(number(word)) * time.Millisecond }

func has(words []string, wanted string) bool {
	for _, word := range words {
		if word == wanted {
			return true
		}
	}
	return false
}

// option returns the number of KEY=NUMBER, or 0.
func option(words []string, key string) uint64 {
	for _, word := range words {
		if value, is := strings.CutPrefix(word, key+"="); is {
			return number(value)
		}
	}
	return 0
}

func pattern(size int, seed uint64) []byte {
	data := make([]byte, size)
	for at := range data {
		data[at] = byte((seed + uint64(at)) % 251)
	}
	return data
}

func isPattern(data []byte, seed uint64) bool {
	return string(data) == string(pattern(len(data), seed))
}

// message returns the message that a word stands for.
func message(word string) []byte {
	if size, seed, is := strings.Cut(word, "*"); is {
		return pattern(int(number(size)), number(seed))
	}
	return []byte(word)
}

func show(data []byte) string {
	letters := len(data) >= 1 && len(data) <= 16
	for _, letter := range data {
		letters = letters && letter > 0x20 && letter < 0x7f
	}
	if letters {
		return string(data)
	}
	seed := byte(0)
	if len(data) > 0 {
		seed = data[0]
	}
	if isPattern(data, uint64(seed)) {
		return fmt.Sprintf("%d*%d", len(data), seed)
	}
	return fmt.Sprintf("%d*broken", len(data))
}

// shown returns what a call got as an answer.
func shown(data []byte, err error) (any, error) { return show(data), err }

// wrong is a message that is not what was sent.
func wrong(count uint64, data []byte) error { return fmt.Errorf("message %d is %s", count, show(data)) }

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
