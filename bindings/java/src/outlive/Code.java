package outlive;

import java.util.HashMap;
import java.util.Map;

/** The kinds of errors. The numbers are those of the C library: errno numbers, or its own. */
public enum Code {
    /** An owner of the lock died with it, and no holder has repaired it since; of a receive: a publisher has died. */
    OWNER_DIED(130),
    /** A holder marked the lock not recoverable. */
    NOT_RECOVERABLE(131),
    /** This thread holds the lock already. */
    DEADLOCK(35),
    /** A living process or thread has it. */
    BUSY(16),
    /** The time has passed. */
    TIMED_OUT(110),
    /** Not now; a later try may succeed. */
    WOULD_BLOCK(11),
    /** The other side is gone: a receiver, all senders, a writer, a client, a server that had not begun the call. */
    PEER_DIED(32),
    /** The server died after it had begun the call, which may have taken effect. */
    SERVER_DIED_BEGUN(104),
    /** The server dropped the request. */
    DROPPED(103),
    /** There is no receiver, or no server. */
    NO_PEER(107),
    /** The server has replied, and takes no more parts of the request. */
    ANSWERED(108),
    /** The client wants no reply any more. */
    CANCELLED(125),
    /** Nothing came for longer than the subscriber's period. */
    MISSED(62),
    /** Too many bytes. */
    TOO_LARGE(90),
    /** The thing or its file system is full. */
    NO_SPACE(28),
    /** The subscriber holds as many samples as it may. */
    TOO_MANY_HELD(105),
    /** All places are taken. */
    TOO_MANY(87),
    /** More permits than there may be. */
    OVERFLOW(75),
    /** Another thread's, another user's, or a forked child's parent's. */
    NOT_OWNER(1),
    /** A permission is missing. */
    PERMISSION(13),
    /** Nothing has that name. */
    NOT_FOUND(2),
    /** Something has that name. */
    EXISTS(17),
    /** The folder holds other things than a domain. */
    NOT_A_DOMAIN(39),
    /** Of another domain or pool. */
    OTHER_DOMAIN(18),
    /** What was offered is gone. */
    STALE(116),
    /** An invalid name, option or argument, or an option that contradicts what exists. */
    INVALID(22),
    /** No thread holds it; nothing is known of the peer. */
    NOTHING(3),
    /** Shared bytes cannot be right. */
    DAMAGED(10001),
    /** The name is in use for another kind of thing. */
    OTHER_KIND(10002),
    /** The thing has values of another type, size or layout. */
    OTHER_TYPE(10003),
    /** Another version's memory layout. */
    OTHER_VERSION(10004),
    /** The file was not made by Outlive. */
    NOT_OURS(10005),
    /** The barrier is broken. */
    BROKEN(10006),
    /** The lock belongs to another pid namespace or C library. */
    OTHER_PLACE(10007),
    /** A pool's debug mode found a fault in the program. */
    FAULT(10008),
    /** A defect of Outlive. */
    PANIC(10009),
    /** The service could not do what was asked; the message has its server's words. */
    FAILED(10011),
    /** A publisher did not wait any longer for this reliable subscriber. */
    LAGGED(10012),
    /** The next message is the first one of a start of its publisher. */
    NEW_SESSION(10013),
    /** A publisher lives and has done nothing for its lease. */
    NOT_LIVELY(10014),
    /** It does something again. */
    LIVELY(10015),
    /** An errno number that is none of these: see {@link OutliveException#number}. */
    OTHER(0);

    private static final Map<Integer, Code> BY_NUMBER = new HashMap<>();

    static {
        for (Code code : values()) {
            BY_NUMBER.put(code.number, code);
        }
    }

    final int number;

    Code(int number) {
        this.number = number;
    }

    static Code of(int number) {
        return BY_NUMBER.getOrDefault(number, OTHER);
    }
}
