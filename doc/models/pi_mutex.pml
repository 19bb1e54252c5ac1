/* pi_mutex.pml - our state beside libc's robust mutex with priority inheritance: death between any two steps.
 *
 * Threads 0..N-1. What the kernel and libc do is taken as given:
 *   own died      the word: owner + 1 or 0; OWNER_DIED. At a thread's end the kernel takes its number out and sets the bit,
 *                 or hands the word so to a sleeper, which is the same as that sleeper's being the next to take it
 *   lst           libc's own memory of a death: set when it tells one, cleared by "consistent"; unlocked while set, libc's
 *                 mutex is lost for good
 *   st            our state: consistent, inconsistent, not recoverable
 *
 * lock     1. take the word when nobody has it (the bit stays)      2. the bit set -> clear it, lst := 1, "owner died"
 *          3. told: st consistent -> inconsistent                   4. told: lst := 0
 *          5. st not recoverable -> unlock and say so; inconsistent -> the caller is told
 * work     torn := true, torn := false; who was told repairs and says so, or does not
 * unlock   1. st inconsistent -> not recoverable   2. the word := 0
 * reset    lock 1 to 4, torn := false, st := consistent, unlock 2
 *
 * Checked: nobody enters torn data without being told; libc's mutex is never lost; only who holds it writes st; everybody
 * who lives gets through (an invalid end state).
 * Switches: -DN=threads -DD=deaths -DR=rounds
 * Mutations, each must be caught:
 *   NOSTATE     st is not written: only libc tells, and forgets who gave it up
 *   NRLATE      unlock releases the word before it says "not recoverable"
 *   NOLIBC      libc is not told at all
 * Two orders make no difference, because a death while the word is held is marked in any case: LIBCFIRST tells libc before
 * st is written, RESETFIRST says "consistent" before the data are whole. Both pass.
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
byte deaths;

/* Lives on, or dies here: the kernel's walk. */
#define STEP if :: skip :: atomic { deaths < D -> deaths++; KILL } goto dead fi
#define KILL if :: own == me + 1 -> own = 0; died = true :: else fi;
#define SET(value) atomic { assert(own == me + 1); st = value }

proctype Thread(byte me; bool resets) {
    byte rounds = R; bool told; bool refused;
again:
    STEP;
    atomic { own == 0 -> own = me + 1 };                                    /* lock 1 */
    told = false; refused = false;
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
    :: st == GONE && !resets -> refused = true; goto release                /* lock 5 */
    :: st == INCONSISTENT && !resets ->
        if
        :: torn = false; STEP; SET(CONSISTENT)                              /* repairs */
        :: skip                                                             /* gives up */
        fi
    :: st == CONSISTENT && !resets ->
#ifdef NOSTATE
        if :: told -> if :: torn = false :: refused = true; goto release fi :: else fi;
#endif
        assert(!torn)
    fi;
    STEP;
    if
    :: st == CONSISTENT -> torn = true; STEP; torn = false; STEP            /* work */
    :: else
    fi;
#ifndef NRLATE
    if :: st == INCONSISTENT -> SET(GONE) :: else fi;                       /* unlock 1 */
    STEP;
#endif
release:
    atomic { assert(own == me + 1 && !lst); own = 0 };                      /* unlock 2 */
#ifdef NRLATE
    STEP;
    if :: st == INCONSISTENT && !refused -> SET(GONE) :: else fi;
#endif
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
