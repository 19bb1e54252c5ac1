/* Two threads that take turns by each of Outlive's means, with plain variables in between. Compiled with
 * -fsanitize=thread, which must have nothing to report. The argument is the folder of a domain of its own. */
#include <outlive.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DO(call) do { int code_ = (call); if (code_) { fprintf(stderr, "%s: %d, %s\n", #call, code_, outlive_last_error()); exit(1); } } while (0)

enum { TURNS = 500 };

static outlive_domain_t *domain;
static outlive_mutex_t *mutex;
static outlive_condvar_t *condvar;
static outlive_rwlock_t *rwlock;
static outlive_event_t *event;
static outlive_semaphore_t *semaphore;
static outlive_queue_t *queue;
static outlive_topic_t *topic;

/* What the threads share, each by the means that it is named after. */
static long by_mutex, by_condvar, by_rwlock, by_event, by_semaphore, by_queue, by_topic;

static void take_turns(void)
{
	long *inside = outlive_mutex_value(mutex);
	for (int i = 0; i < TURNS; i++) {
		uint32_t index;
		DO(outlive_mutex_lock(mutex));
		by_mutex++;
		++*inside;
		DO(outlive_mutex_unlock(mutex));
		DO(outlive_rwlock_write(rwlock, OUTLIVE_NEVER));
		by_rwlock++;
		DO(outlive_rwlock_unlock(rwlock));
		DO(outlive_rwlock_read(rwlock, OUTLIVE_NEVER));
		if (by_rwlock < 1) abort();
		DO(outlive_rwlock_unlock(rwlock));
		DO(outlive_semaphore_acquire(semaphore, OUTLIVE_NEVER, &index));
		by_semaphore++;
		DO(outlive_semaphore_release(semaphore));
	}
}

static void *second(void *unused)
{
	uint32_t seen;
	outlive_sender_t *sender;
	outlive_publisher_t *publisher;
	(void)unused;
	take_turns();
	DO(outlive_mutex_lock(mutex));
	while (by_condvar == 0) DO(outlive_condvar_wait(condvar, mutex));
	by_condvar++;
	DO(outlive_mutex_unlock(mutex));
	DO(outlive_event_wait_any(event, 1, OUTLIVE_NEVER, &seen));
	by_event++;
	DO(outlive_queue_sender(queue, &sender));
	DO(outlive_topic_publisher(topic, NULL, &publisher));
	for (long i = 0; i < TURNS; i++) {
		by_queue = i;
		DO(outlive_sender_send(sender, &i, sizeof i, OUTLIVE_NEVER));
		DO(outlive_event_wait_any(event, 2, OUTLIVE_NEVER, &seen));
		DO(outlive_event_clear(event, 2, NULL));
	}
	for (long i = 0; i < TURNS; i++) {
		outlive_loan_t *loan;
		void *data;
		by_topic = i;
		DO(outlive_publisher_loan(publisher, sizeof i, &loan, &data));
		memcpy(data, &i, sizeof i);
		DO(outlive_publisher_publish(publisher, loan, OUTLIVE_NEVER, NULL));
		DO(outlive_event_wait_any(event, 2, OUTLIVE_NEVER, &seen));
		DO(outlive_event_clear(event, 2, NULL));
	}
	outlive_publisher_close(publisher);
	outlive_sender_close(sender);
	return NULL;
}

int main(int count, char **arguments)
{
	long zero = 0, got;
	size_t size;
	pthread_t thread;
	outlive_receiver_t *receiver;
	outlive_subscriber_t *subscriber;
	outlive_topic_options_t options = OUTLIVE_TOPIC_OPTIONS_INIT;
	outlive_opening_t how = OUTLIVE_OPEN_OR_CREATE;
	DO(outlive_domain_open_at(arguments[count - 1], how, &domain));
	DO(outlive_mutex_open(domain, "mutex", how, sizeof zero, &zero, &mutex));
	DO(outlive_condvar_open(domain, "condvar", how, &condvar));
	DO(outlive_rwlock_open(domain, "rwlock", how, 0, NULL, &rwlock));
	DO(outlive_event_open(domain, "event", how, 0, &event));
	DO(outlive_semaphore_open(domain, "semaphore", how, 1, 1, &semaphore));
	DO(outlive_queue_open(domain, "queue", how, NULL, &queue));
	DO(outlive_topic_open(domain, "topic", how, &options, &topic));
	DO(outlive_queue_receiver(queue, OUTLIVE_TRY, &receiver));
	DO(outlive_topic_subscriber(topic, NULL, &subscriber));
	if (pthread_create(&thread, NULL, second, NULL)) return 1;
	take_turns();
	DO(outlive_mutex_lock(mutex));
	by_condvar = 1;
	DO(outlive_condvar_notify_one(condvar));
	DO(outlive_mutex_unlock(mutex));
	by_event = 1;
	DO(outlive_event_set(event, 1, NULL));
	for (long i = 0; i < TURNS; i++) {
		DO(outlive_receiver_recv(receiver, &got, sizeof got, &size, OUTLIVE_NEVER));
		if (got != i || by_queue != i) abort();
		DO(outlive_event_set(event, 2, NULL));
	}
	for (long i = 0; i < TURNS; i++) {
		outlive_sample_t *sample;
		DO(outlive_subscriber_recv(subscriber, &sample, OUTLIVE_NEVER));
		memcpy(&got, outlive_sample_data(sample), sizeof got);
		if (got != i || by_topic != i) abort();
		outlive_sample_release(sample);
		DO(outlive_event_set(event, 2, NULL));
	}
	pthread_join(thread, NULL);
	printf("%ld %ld %ld %ld\n", by_mutex, by_rwlock, by_semaphore, by_condvar + by_event);
	outlive_domain_close(domain);
	return 0;
}
