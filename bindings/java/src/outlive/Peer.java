package outlive;

import static outlive.Native.INT;

import java.lang.foreign.MemorySegment;

/**
 * What is known of a token's owner.
 *
 * @param token names it
 * @param pid its process; 0: no longer known
 * @param tid its thread; 0: no longer known
 * @param isAlive whether it lives
 */
public record Peer(int token, int pid, int tid, boolean isAlive) {
    /** The bytes of C's struct. */
    static final long SIZE = 64;

    static Peer of(MemorySegment info) {
        return new Peer(info.get(INT, 0), info.get(INT, 4), info.get(INT, 8), info.get(java.lang.foreign.ValueLayout.JAVA_BYTE, 12) != 0);
    }
}
