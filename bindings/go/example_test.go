package outlive_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"outlive"
)

// Two ends of a queue, a lock whose value an earlier process may have left half-changed, and a topic
// that lends its memory.
func Example() {
	domain, err := outlive.OpenDomain(outlive.DomainOptions{Path: fmt.Sprintf("/dev/shm/outlive-go-example-%d", os.Getpid())})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		path, _ := domain.Path()
		domain.Close()
		os.RemoveAll(path)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	queue, err := domain.OpenQueue("orders", outlive.QueueOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	sender, err := queue.Sender()
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close()
	if err := sender.Send(ctx, []byte("an order")); err != nil {
		log.Fatal(err)
	}
	receiver, err := queue.Receiver(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer receiver.Close()
	// Peek and Commit: a receiver that is killed in between loses no message.
	message, _, err := receiver.Peek(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", message)
	if err := receiver.Commit(); err != nil {
		log.Fatal(err)
	}

	total, err := domain.OpenMutex("total", outlive.LockOptions{Size: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer total.Close()
	guard, err := total.Lock(ctx)
	if errors.Is(err, outlive.ErrOwnerDied) {
		guard, err = total.LockToRepair(ctx)
		if err == nil {
			// Make whole what the dead owner left here.
			err = guard.MarkConsistent()
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	count, err := outlive.As[uint64](guard.Value())
	if err != nil {
		log.Fatal(err)
	}
	*count++
	fmt.Println(*count)
	if err := guard.Unlock(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// an order
	// 1
}
