/* The calls of `calls.rs`, in C: what is done in which order is the same there, line by line.
 *
 *     calls OPERATION DOMAIN CONTROL time|steps COUNT
 */
#define _GNU_SOURCE
#include <outlive.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage.h"

enum { BYTES = 64, BURST = 128, WARM = 16 };

static outlive_mutex_t *lock;
static outlive_sender_t *sender;
static outlive_receiver_t *receiver;
static outlive_publisher_t *publisher;
static outlive_subscriber_t *subscriber;
static char message[BYTES], room[BYTES];
static uint64_t sum;

static void must(int code)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s\n", outlive_last_error());
	exit(1);
}

static void open_all(const char *path)
{
	outlive_domain_t *domain;
	outlive_queue_t *queue;
	outlive_topic_t *topic;
	outlive_queue_options_t wide = OUTLIVE_QUEUE_OPTIONS_INIT;
	outlive_topic_options_t deep = OUTLIVE_TOPIC_OPTIONS_INIT;
	wide.first_slots = 4 * BURST;
	deep.depth = 2 * BURST;
	deep.no_stamps = 1;
	must(outlive_domain_open_at(path, OUTLIVE_OPEN_OR_CREATE, &domain));
	must(outlive_mutex_open(domain, "lock", OUTLIVE_OPEN_OR_CREATE, 8, NULL, &lock));
	must(outlive_queue_open(domain, "queue", OUTLIVE_OPEN_OR_CREATE, &wide, &queue));
	must(outlive_queue_sender(queue, &sender));
	must(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
	must(outlive_topic_open(domain, "topic", OUTLIVE_OPEN_OR_CREATE, &deep, &topic));
	must(outlive_topic_publisher(topic, NULL, &publisher));
	must(outlive_topic_subscriber(topic, NULL, &subscriber));
}

static void locks(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++) {
		must(outlive_mutex_lock(lock));
		must(outlive_mutex_unlock(lock));
	}
}

static void send(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++)
		must(outlive_sender_send(sender, message, BYTES, OUTLIVE_NEVER));
}

static void recv(uint64_t count)
{
	size_t size;
	for (uint64_t n = 0; n < count; n++) {
		must(outlive_receiver_recv(receiver, room, BYTES, &size, OUTLIVE_NEVER));
		sum += size;
	}
}

static void publish(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++) {
		outlive_loan_t *loan;
		void *data;
		must(outlive_publisher_loan(publisher, BYTES, &loan, &data));
		memcpy(data, &n, sizeof n);
		must(outlive_publisher_publish(publisher, loan, OUTLIVE_NEVER, NULL));
	}
}

static void publish_copy(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++)
		must(outlive_publisher_publish_copy(publisher, message, BYTES, NULL, OUTLIVE_NEVER, NULL));
}

static void take(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++) {
		outlive_sample_t *sample;
		uint64_t first;
		must(outlive_subscriber_recv(subscriber, &sample, OUTLIVE_NEVER));
		memcpy(&first, outlive_sample_data(sample), sizeof first);
		sum += first;
		outlive_sample_release(sample);
	}
}

/* What is measured, and what goes before and after it. */
static const struct operation {
	const char *name;
	void (*before)(uint64_t), (*timed)(uint64_t), (*after)(uint64_t);
} operations[] = {
	{ "lock", NULL, locks, NULL },
	{ "send", NULL, send, recv },
	{ "recv", send, recv, NULL },
	{ "publish", NULL, publish, take },
	{ "publish_copy", NULL, publish_copy, take },
	{ "take", publish_copy, take, NULL },
};

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int count, char **args)
{
	if (count != 6)
		return 2;
	const struct operation *which = NULL;
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
		if (!strcmp(operations[i].name, args[1]))
			which = &operations[i];
	struct stage *stage = stage_enter(args[3]);
	if (!which || !stage)
		return 2;
	int by_steps = !strcmp(args[4], "steps");
	uint64_t wanted = strtoull(args[5], NULL, 10), bursts = by_steps ? 1 : (wanted + BURST - 1) / BURST, spent = 0;
	open_all(args[2]);
	for (uint64_t burst = 0; burst < bursts + WARM; burst++) {
		int counts = burst >= WARM;
		uint64_t times = by_steps && counts ? wanted : BURST;
		if (which->before)
			which->before(times);
		if (by_steps && counts) {
			stage_begin(stage);
			which->timed(times);
			stage_end(stage);
		} else {
			uint64_t begun = now();
			which->timed(times);
			spent += counts ? now() - begun : 0;
		}
		if (which->after)
			which->after(times);
	}
	stage->notes[0] = spent;
	stage->notes[1] = bursts * BURST;
	return sum == 1;
}
