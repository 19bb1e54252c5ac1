/* `once.`, what is done once; `record.`, a struct with all that may be inside. */
#include "driver.h"

static const char *how;

static void make(void *nothing, int previous_died) {
    (void)nothing;
    how = previous_died ? "again" : "fresh";
}

/* The next lines come in the middle of it. */
static void make_and_serve(void *last, int previous_died) {
    make(NULL, previous_died);
    printf("ok %s\n", how);
    fflush(stdout);
    serve(last);
}

static void once_open(void) {
    outlive_once_t *once = NULL;
    TRY(outlive_once_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, &once));
    it()->main = once;
    OK();
}

static void once_do(void) {
    how = "done";
    TRY(outlive_once_do(it()->main, make, NULL, until(words[2])));
    printf("ok %s\n", how);
}

static void once_within(void) {
    char last[80];
    snprintf(last, sizeof last, "once.leave %s", words[1]);
    TRY(outlive_once_do(it()->main, make_and_serve, last, until(words[2])));
    OK();
}

static void once_is_done(void) { puts(outlive_once_is_done(it()->main) ? "ok yes" : "ok no"); }

/* The parts of a record are found by NAME.FIELD. */
struct line {
    outlive_mutex_t lock;
    uint64_t value;
    outlive_event_t moved;
    outlive_latch_t ready;
    outlive_once_t made;
    outlive_condvar_t changed;
    uint64_t count;
    OUTLIVE_SEMAPHORE_OF(3) slots;
    OUTLIVE_SEMAPHORE_OF(2) parts;
    OUTLIVE_BARRIER_OF(2) step;
    OUTLIVE_BARRIER_OF(2) tour;
    outlive_pi_mutex_t spindle;
};

static const outlive_place_t places[] = {
    OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX),
    OUTLIVE_PLACE(struct line, moved, OUTLIVE_EVENT),
    OUTLIVE_PLACE(struct line, ready, OUTLIVE_LATCH),
    OUTLIVE_PLACE(struct line, made, OUTLIVE_ONCE),
    OUTLIVE_PLACE(struct line, changed, OUTLIVE_CONDVAR),
    OUTLIVE_SEMAPHORE_PLACE(struct line, slots),
    OUTLIVE_SEMAPHORE_PLACE(struct line, parts),
    OUTLIVE_BARRIER_PLACE(struct line, step),
    OUTLIVE_BARRIER_PLACE(struct line, tour),
    OUTLIVE_PLACE(struct line, spindle, OUTLIVE_PI_MUTEX),
};
enum { PLACES = sizeof places / sizeof *places };

static void fill_line(void *data, void *value) {
    struct line *line = data;
    line->value = *(uint64_t *)value;
    if (outlive_latch_init(&line->ready, 2) != 0) abort();
    if (outlive_semaphore_init(&line->parts.semaphore, 0, 2) != 0) abort();
    if (outlive_barrier_init(&line->tour.barrier, OUTLIVE_DEATH_COUNTS_OUT) != 0) abort();
}

static struct thing *field(const char *name, void *words_of_it) {
    char full[64];
    snprintf(full, sizeof full, "%.40s.%s", words[1], name);
    struct thing *thing = find(full);
    thing->main = words_of_it;
    return thing;
}

static void record_open(void) {
    uint64_t value = number(words[2]);
    void *data = NULL;
    TRY(outlive_record_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof(struct line), places,
        PLACES, fill_line, &value, &data));
    struct line *line = it()->main = data;
    field("lock", &line->lock)->value = &line->value;
    field("moved", &line->moved);
    field("ready", &line->ready);
    field("made", &line->made);
    field("changed", &line->changed);
    field("slots", &line->slots.semaphore);
    field("parts", &line->parts.semaphore);
    field("step", &line->step.barrier);
    field("tour", &line->tour.barrier);
    OK();
}

static void record_other(void) {
    outlive_place_t other[PLACES];
    void *data = NULL;
    memcpy(other, places, sizeof places);
    other[6].number = 3;
    TRY(outlive_record_open(domain, words[1], OUTLIVE_OPEN_OR_CREATE, sizeof(struct line), other,
        PLACES, NULL, NULL, &data));
    OK();
}

static void record_count(void) {
    struct line *line = it()->main;
    say_number(__atomic_add_fetch(&line->count, 1, __ATOMIC_RELAXED));
}

static void record_spin_up(void) {
    struct line *line = it()->main;
    int code = outlive_pi_mutex_lock(&line->spindle, until(words[2]));
    if (code == EOWNERDEAD) puts("owner-died");
    else {
        TRY(code);
        OK();
    }
}

const struct verb record_verbs[] = {
    V(once, open, 1), V(once, do, 2), V(once, within, 2), V(once, is_done, 1),
    V(record, open, 2), V(record, other, 1), V(record, count, 1), V(record, spin_up, 2),
    END,
};
