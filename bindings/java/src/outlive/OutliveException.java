package outlive;

/** What a call of the library failed with. */
public final class OutliveException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Which kind of error. */
    private final Code code;
    /** The C library's number. */
    private final int number;
    /** The process that the message names. */
    private final int pid;

    OutliveException(int number, String message, int pid) {
        super(message);
        this.code = Code.of(number);
        this.number = number;
        this.pid = pid;
    }

    OutliveException(Code code, String message) {
        this(code.number, message, 0);
    }

    /**
     * Returns which kind of error it is.
     *
     * @return the kind
     */
    public Code code() {
        return code;
    }

    /**
     * Returns the C library's number: an errno number below 10,000.
     *
     * @return the number
     */
    public int number() {
        return number;
    }

    /**
     * Returns the process that the message names, where that is a topic's subscriber or publisher.
     *
     * @return the process; 0: none
     */
    public int pid() {
        return pid;
    }
}
