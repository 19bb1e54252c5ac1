package outlive;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;

/**
 * Calls of the C library. A handle of C's is a long here: both are passed alike on the processors that
 * the library is for.
 */
final class Native {
    static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
    static final ValueLayout.OfBoolean BOOL = ValueLayout.JAVA_BOOLEAN;
    static final AddressLayout ADDRESS = ValueLayout.ADDRESS;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup LIBRARY =
            SymbolLookup.libraryLookup(System.getProperty("outlive.library", "liboutlive.so.0"), Arena.global());

    private static final MethodHandle LAST_ERROR = function("outlive_last_error", LONG);
    private static final MethodHandle LAST_ERROR_PID = function("outlive_last_error_pid", INT);
    private static final MethodHandle AFTER = function("outlive_after", LONG, LONG);

    /** C's OUTLIVE_NEVER and OUTLIVE_TRY. */
    static final long NEVER = -1;
    static final long TRY = 0;

    private Native() {}

    /** A call of C that returns a code. */
    interface Call {
        int run() throws Throwable;
    }

    /** A call of C that returns a code and waits until a deadline. */
    interface Timed {
        int run(long until) throws Throwable;
    }

    /** A call of C that cannot fail. */
    interface Ask<T> {
        T run() throws Throwable;
    }

    static MethodHandle function(String name, MemoryLayout returned, MemoryLayout... arguments) {
        MemorySegment at = LIBRARY.find(name)
                .orElseThrow(() -> new UnsatisfiedLinkError("the Outlive library that is loaded has no " + name));
        return LINKER.downcallHandle(at, FunctionDescriptor.of(returned, arguments));
    }

    static MethodHandle procedure(String name, MemoryLayout... arguments) {
        MemorySegment at = LIBRARY.find(name)
                .orElseThrow(() -> new UnsatisfiedLinkError("the Outlive library that is loaded has no " + name));
        return LINKER.downcallHandle(at, FunctionDescriptor.ofVoid(arguments));
    }

    /** Makes a call and returns its code. */
    static int code(Call call) {
        return ask(call::run);
    }

    static <T> T ask(Ask<T> call) {
        try {
            return call.run();
        } catch (RuntimeException | Error known) {
            throw known;
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    /** Makes a call that must not fail. */
    static void check(Call call) {
        int code = code(call);
        if (code != 0) {
            throw failure(code);
        }
    }

    /** Makes a call that takes what it is given. */
    static void release(long handle, MethodHandle how) {
        ask(() -> {
            how.invoke(handle);
            return null;
        });
    }

    /** The error of this thread's last call. A thread that is virtual stays on its carrier in between: nothing here blocks. */
    static OutliveException failure(int code) {
        return ask(() -> new OutliveException(
                code, text((long) LAST_ERROR.invokeExact()), (int) LAST_ERROR_PID.invokeExact()));
    }

    static String text(long address) {
        return address == 0 ? "" : MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
    }

    static long after(long nanoseconds) {
        return ask(() -> (long) AFTER.invokeExact(nanoseconds));
    }

    static MemorySegment string(Arena arena, String text) {
        if (text.indexOf('\0') >= 0) {
            throw new OutliveException(Code.INVALID, "a name has no NUL");
        }
        return arena.allocateFrom(text, StandardCharsets.UTF_8);
    }

    /** A copy of a message for C. */
    static MemorySegment copy(Arena arena, byte[] message) {
        MemorySegment to = arena.allocate(Math.max(message.length, 1));
        MemorySegment.copy(message, 0, to, ValueLayout.JAVA_BYTE, 0, message.length);
        return to;
    }

    /** A copy of C's bytes. */
    static byte[] bytes(long address, long size) {
        return size == 0 ? new byte[0] : MemorySegment.ofAddress(address).reinterpret(size).toArray(ValueLayout.JAVA_BYTE);
    }

    /** An options struct of C's, which begins with its size. */
    static MemorySegment options(Arena arena, long size) {
        MemorySegment options = arena.allocate(size, 8);
        options.set(LONG, 0, size);
        return options;
    }

    static int flag(boolean is) {
        return is ? 1 : 0;
    }
}
