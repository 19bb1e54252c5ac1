/* The victim of the testkit's scenarios, in C: `cargo xtask crash` kills it at each noted instruction, and asks the same survivors as
 * when it is a Rust program. What it does is what `Scenario::perform` of that name does.
 *
 *     victim                                                       which scenarios it knows
 *     victim SCENARIO victim DOMAIN off|on NAME CONTROL CPU
 */
#define _GNU_SOURCE
#include <outlive.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static outlive_domain_t *domain;
static const char *name;
static struct stage *stage;

static void must(int code)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %s\n", outlive_strerror(code), outlive_last_error());
	exit(1);
}

static void acknowledge(void)
{
	__atomic_fetch_add(&stage->acknowledged, 1, __ATOMIC_SEQ_CST);
}

/* As message.rs has it. */
static uint64_t mix(uint64_t seed)
{
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	return seed ^ seed >> 31;
}

static const uint64_t STEP = 0x9e3779b97f4a7c15;

static const char *message(uint64_t sender, uint64_t number, uint64_t length)
{
	static uint64_t words[1024];
	uint64_t count = length / 8, filling = mix(sender ^ mix(number ^ length)), sum = STEP;
	words[0] = sender, words[1] = number, words[2] = length;
	for (uint64_t at = 3; at < count - 1; at++)
		words[at] = filling = mix(filling + STEP);
	for (uint64_t at = 0; at < count - 1; at++)
		sum = mix(sum ^ words[at]);
	words[count - 1] = sum;
	return (const char *)words;
}

/* Mutexes. */

static outlive_mutex_t *mutex;
static volatile uint64_t *pair;

static void open_mutex(void)
{
	uint32_t token;
	must(outlive_domain_token(domain, &token));
	must(outlive_mutex_open(domain, name, OUTLIVE_OPEN_OR_CREATE, 2 * sizeof *pair, NULL, &mutex));
	must(outlive_mutex_set_wait(mutex, OUTLIVE_WAIT_BLOCK));
	pair = outlive_mutex_value(mutex);
}

static void mutex_lock(void)
{
	open_mutex();
	stage_begin(stage);
	must(outlive_mutex_lock(mutex));
	pair[0]++;
	pair[1]++;
	must(outlive_mutex_unlock(mutex));
	stage_end(stage);
}

static void mutex_unlock(void)
{
	open_mutex();
	must(outlive_mutex_lock(mutex));
	stage_begin(stage);
	pair[0]++;
	pair[1]++;
	must(outlive_mutex_unlock(mutex));
	stage_end(stage);
}

/* Queues. */

static outlive_queue_t *open_queue(void)
{
	outlive_queue_options_t options = OUTLIVE_QUEUE_OPTIONS_INIT;
	outlive_queue_t *queue;
	options.max_bytes = 1 << 20;
	options.first_slots = 64;
	options.wait = OUTLIVE_WAIT_BLOCK;
	must(outlive_queue_open(domain, name, OUTLIVE_OPEN_OR_CREATE, &options, &queue));
	return queue;
}

static void send_two(size_t length)
{
	outlive_sender_t *sender;
	char *messages[2];
	must(outlive_queue_sender(open_queue(), &sender));
	for (uint64_t at = 0; at < 2; at++)
		messages[at] = memcpy(malloc(length), message(1, at + 1, length), length);
	stage_begin(stage);
	for (int at = 0; at < 2; at++) {
		must(outlive_sender_send(sender, messages[at], length, OUTLIVE_NEVER));
		acknowledge();
	}
	stage_end(stage);
}

static void queue_send_small(void) { send_two(48); }
static void queue_send_large(void) { send_two(5000); }

/* Topics. */

enum { DEPTH = 4 };

static void publish_one(size_t length, int in_place)
{
	outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
	outlive_topic_t *topic;
	outlive_publisher_t *publisher;
	options.depth = DEPTH;
	options.max_bytes = 1 << 20;
	options.no_stamps = 1;
	options.wait = OUTLIVE_WAIT_BLOCK;
	must(outlive_topic_open(domain, name, OUTLIVE_OPEN_OR_CREATE, &options, &topic));
	must(outlive_topic_publisher(topic, NULL, &publisher));
	for (uint64_t number = 1; number <= DEPTH; number++)
		must(outlive_publisher_publish_copy(publisher, message(1, number, length), length, NULL, OUTLIVE_NEVER, NULL));
	const char *last = message(1, DEPTH + 1, length);
	stage_begin(stage);
	if (in_place) {
		outlive_loan_t *loan;
		void *data;
		must(outlive_publisher_loan(publisher, length, &loan, &data));
		memcpy(data, last, length);
		must(outlive_publisher_publish(publisher, loan, OUTLIVE_NEVER, NULL));
	} else {
		must(outlive_publisher_publish_copy(publisher, last, length, NULL, OUTLIVE_NEVER, NULL));
	}
	acknowledge();
	stage_end(stage);
}

static void topic_publish_small(void) { publish_one(48, 0); }
static void topic_publish_large(void) { publish_one(5000, 0); }
static void topic_loan_and_publish(void) { publish_one(5000, 1); }

static const struct {
	const char *name;
	void (*perform)(void);
} scenarios[] = {
	{ "mutex-lock", mutex_lock },
	{ "mutex-unlock", mutex_unlock },
	/* Another process holds it when the victim comes. */
	{ "mutex-wait", mutex_lock },
	{ "queue-send-small", queue_send_small },
	{ "queue-send-large", queue_send_large },
	{ "topic-publish-small", topic_publish_small },
	{ "topic-publish-large", topic_publish_large },
	{ "topic-loan-and-publish", topic_loan_and_publish },
};

int main(int count, char **args)
{
	outlive_domain_options_t options = OUTLIVE_DOMAIN_OPTIONS_INIT;
	for (size_t at = 0; at < sizeof scenarios / sizeof *scenarios; at++) {
		if (count == 1)
			puts(scenarios[at].name);
		if (count != 8 || strcmp(scenarios[at].name, args[1]))
			continue;
		options.path = args[3];
		options.recheck_ms = strcmp(args[4], "off") ? 0 : UINT32_MAX;
		must(outlive_domain_open_with(&options, OUTLIVE_OPEN_OR_CREATE, &domain));
		name = args[5];
		stage = stage_enter(args[6]);
		if (!stage)
			return 2;
		if (strcmp(args[7], "any")) {
			/* Engine and victim take turns on one processor. */
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET(atoi(args[7]), &set);
			sched_setaffinity(0, sizeof set, &set);
		}
		scenarios[at].perform();
		return 0;
	}
	return count == 1 ? 0 : 2;
}
