/* pi_mutex.pml - our state beside libc's robust mutex with priority inheritance: death between any
 * two steps.
 *
 * Threads 0..N-1. What the kernel and libc do is taken as given:
 *   own died      the word: owner + 1 or 0; OWNER_DIED. At a thread's end the kernel takes its
 *                 number out and sets the bit, or hands the word so to a sleeper, which is the same
 *                 as that sleeper's being the next to take it
 *   lst           libc's own memory of a death: set when it tells one, cleared by "consistent";
 *                 unlocked while set, libc's mutex is lost for good
 *   st            our state: consistent, inconsistent, not recoverable
 *
 * lock     1. take the word when no thread has it (the bit stays)
 *          2. the bit set -> clear it, lst := 1, "owner died"
 *          3. told: st consistent -> inconsistent                   4. told: lst := 0
 *          5. st not recoverable -> unlock and say so; inconsistent -> the caller is told
 * work     torn := true, torn := false; a holder that was told repairs and marks st, or does not,
 *          or marks it not recoverable; one that was not told may panic
 * unlock   1. a panic in the middle of the work: st := inconsistent   2. the word := 0
 * mark     not recoverable: 1. st := not recoverable   2. the word := 0
 * reset    lock 1 to 4, torn := false, st := consistent, unlock 2
 *
 * Checked: no thread enters torn data without being told; libc's mutex is never lost; only its
 * holder writes st; a lock is refused only after a holder has marked it so; every living thread
 * gets through (an invalid end state). Switches: -DN=threads -DD=deaths -DR=rounds Mutations, each
 * must be caught: NOSTATE     st is not written after a death: only libc reports the death, and
 * forgets that no
 *               holder has repaired
 *   NRLATE      the marking releases the word before it says "not recoverable"
 *   DROPGIVESUP unlock without a repair marks the lock not recoverable
 *   PANICQUIET  a panic leaves st as it is
 *   NOLIBC      libc is not told at all
 * A stop can add nothing here, so there is no switch for it. The one statement that waits is lock
 * 1, and it goes on as soon as the word is 0. When all has come to rest, the word that a running
 * thread waits for names a thread: not a dead thread, whose number the kernel has taken out; not a
 * running one, because all its other steps can be made; so it names the stopped one, which holds
 * the lock. No wake-up can be used up: the kernel hands the word itself over, and a sleeper that is
 * stopped then has the lock from that moment on. Two orders make no difference, because a death
 * while the word is held is marked in any case: LIBCFIRST tells libc before st is written,
 * RESETFIRST says "consistent" before the data are whole. Both pass.
 */
#ifndef N
#define N 3
#endif
#ifndef D
#define D 2
#endif
#ifndef R
#define R 2
#endif
#define CONSISTENT 0
#define INCONSISTENT 1
#define GONE 2

byte own; bool died; bool lst; byte st; bool torn;
bool gaveup;            /* ghost: a holder has decided to give the lock up */
byte deaths;

/* Lives on, or dies here: the kernel's walk. */
#define STEP if :: skip :: atomic { deaths < D -> deaths++; KILL } goto dead fi
#define KILL if :: own == me + 1 -> own = 0; died = true :: else fi;
#define SET(value) atomic { assert(own == me + 1); st = value }

proctype Thread(byte me; bool resets) {
    byte rounds = R; bool told;
again:
    STEP;
    atomic { own == 0 -> own = me + 1 };                                    /* lock 1 */
    told = false;
    STEP;
    if
    :: atomic { died -> died = false; lst = true; told = true }             /* lock 2 */
    :: !died
    fi;
    if
    :: told ->
        STEP;
#ifdef LIBCFIRST
        lst = false;
        STEP;
#endif
#ifndef NOSTATE
        if :: st == CONSISTENT -> SET(INCONSISTENT) :: else fi;             /* lock 3 */
#endif
        STEP;
#if !defined(LIBCFIRST) && !defined(NOLIBC)
        lst = false;                                                        /* lock 4 */
        STEP;
#endif
    :: else
    fi;
    if
    :: resets ->
#ifdef RESETFIRST
        SET(CONSISTENT);
        STEP;
        torn = false;
#else
        torn = false;
        STEP;
        SET(CONSISTENT);
#endif
        STEP;
        goto release
    :: st == GONE && !resets -> assert(gaveup); goto release                /* lock 5 */
    :: st == INCONSISTENT && !resets ->
        if
        :: torn = false; STEP; SET(CONSISTENT)                              /* repairs */
        :: goto release                                                     /* does not */
        :: gaveup = true;                                                   /* not recoverable */
#ifdef NRLATE
            STEP; own = 0; STEP
#else
            STEP
#endif
            SET(GONE);
            STEP;
            goto release
#ifdef DROPGIVESUP
        :: SET(GONE); STEP; goto release
#endif
        fi
    :: st == CONSISTENT && !resets ->
#ifdef NOSTATE
        if :: told -> if :: torn = false :: goto release fi :: else fi;
#endif
        assert(!torn)
    fi;
    STEP;
    torn = true;                                                            /* work */
    STEP;
    if
    :: torn = false
#ifdef PANICQUIET
    :: skip
#else
    :: SET(INCONSISTENT)                                                    /* a panic: unlock 1 */
#endif
    fi;
    STEP;
release:
    atomic { assert(own == me + 1 && !lst); own = 0 };                      /* unlock 2 */
    rounds--;
    if :: rounds > 0 -> goto again :: else fi;
dead:
    skip
}

init {
    atomic {
        byte n = 0;
        do
        :: n < N - 1 -> run Thread(n, false); n++
        :: else -> break
        od;
        run Thread(N - 1, true)
    }
}
