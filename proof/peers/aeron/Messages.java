import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FragmentHandler;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.SleepingMillisIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * One process of a row: ping (which runs the media driver) and pong, or source (which does) and sink.
 *
 * <p>It prints "ready", then obeys lines "OPERATIONS FILE": it measures, writes nanoseconds into the file, prints "done".
 * The thread that measures is called "messages", so that the benchmark can pin it; the driver's and the compiler's threads
 * go where there is room. On two cores the driver's one thread must not spin: it only keeps the books of a connection
 * between two processes, whose messages do not pass through it.
 */
public final class Messages {
    private static final String CHANNEL = "aeron:ipc";
    private static final int THERE = 1;
    private static final int BACK = 2;
    private static final int MTU = 65_504;
    /** Enough for the compiler to have seen everything, or as long as a caller waits. */
    private static final int WARM_UP = 60_000;
    private static final long WARM_UP_NS = TimeUnit.MILLISECONDS.toNanos(1_500);

    private final String role;
    private final int bytes;
    private final boolean everyByte;
    private final IdleStrategy idle;
    private final BufferClaim claim = new BufferClaim();
    private final UnsafeBuffer message;
    private Publication publication;
    private Subscription subscription;
    private long received;
    private long number;
    private int checksum;

    private Messages(String[] args) {
        role = args[0];
        bytes = Integer.parseInt(args[2]);
        everyByte = Boolean.parseBoolean(args[3]);
        // Aeron wakes no receiver: one that does not spin parks for a while, as its documents offer.
        idle = args[4].equals("busy")
            ? new BusySpinIdleStrategy()
            : new BackoffIdleStrategy(0, 0, TimeUnit.MICROSECONDS.toNanos(1), TimeUnit.MICROSECONDS.toNanos(50));
        message = new UnsafeBuffer(ByteBuffer.allocateDirect(bytes));
    }

    public static void main(String[] args) throws Exception {
        Thread thread = new Thread(() -> {
            try {
                new Messages(args).run(args[1]);
            } catch (Throwable error) {
                error.printStackTrace();
                System.exit(1);
            }
        }, "messages");
        thread.start();
        thread.join();
    }

    private static int termLength(int bytes) {
        int least = Math.max(1 << 20, 8 * bytes);
        return Integer.highestOneBit(least) == least ? least : Integer.highestOneBit(least) << 1;
    }

    private void run(String directory) throws Exception {
        boolean leads = role.equals("ping") || role.equals("source");
        MediaDriver driver = leads
            ? MediaDriver.launch(new MediaDriver.Context()
                .aeronDirectoryName(directory)
                .dirDeleteOnStart(true)
                .threadingMode(ThreadingMode.SHARED)
                .sharedIdleStrategy(new SleepingMillisIdleStrategy(1))
                .ipcTermBufferLength(termLength(bytes))
                .ipcMtuLength(MTU)
                .termBufferSparseFile(false)
                .warnIfDirectoryExists(false))
            : null;
        Aeron aeron = Aeron.connect(new Aeron.Context()
            .aeronDirectoryName(directory)
            .idleStrategy(new SleepingMillisIdleStrategy(1)));
        boolean both = role.equals("ping") || role.equals("pong");
        if (leads || both) {
            publication = aeron.addExclusivePublication(CHANNEL, leads ? THERE : BACK);
        }
        if (!leads || both) {
            subscription = aeron.addSubscription(CHANNEL, leads ? BACK : THERE);
        }
        while (publication != null && !publication.isConnected() || subscription != null && !subscription.isConnected()) {
            Thread.sleep(1);
        }
        System.out.println("ready");
        FragmentHandler handler = new FragmentAssembler(this::onMessage);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        switch (role) {
            case "ping" -> ping(handler, orders);
            case "pong" -> pong(handler);
            case "source" -> source(orders);
            default -> sink(handler, orders);
        }
        aeron.close();
        if (driver != null) {
            driver.close();
        }
    }

    private void onMessage(DirectBuffer buffer, int offset, int length, io.aeron.logbuffer.Header header) {
        number = buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
        if (everyByte) {
            long sum = 0;
            int place = offset;
            for (int end = offset + (length & ~7); place < end; place += 8) {
                sum += buffer.getLong(place);
            }
            checksum += (int) sum;
        }
        received++;
    }

    private void write(MutableDirectBuffer buffer, int offset, long number) {
        if (everyByte) {
            buffer.setMemory(offset, bytes, (byte) number);
        }
        buffer.putLong(offset, number, ByteOrder.LITTLE_ENDIAN);
    }

    private void send(long number) {
        // In place where it fits a fragment, else from a buffer of one's own, fragment by fragment.
        if (bytes <= publication.maxPayloadLength()) {
            while (publication.tryClaim(bytes, claim) < 0) {
                Thread.onSpinWait();
            }
            write(claim.buffer(), claim.offset(), number);
            claim.commit();
        } else {
            write(message, 0, number);
            while (publication.offer(message, 0, bytes) < 0) {
                Thread.onSpinWait();
            }
        }
    }

    private void receiveOne(FragmentHandler handler) {
        long before = received;
        while (received == before) {
            idle.idle(subscription.poll(handler, 1));
        }
    }

    private long roundTrip(FragmentHandler handler, long sent) {
        long begun = System.nanoTime();
        send(sent);
        receiveOne(handler);
        if (number != sent) {
            throw new IllegalStateException("message " + sent + " came as " + number);
        }
        return System.nanoTime() - begun;
    }

    private void ping(FragmentHandler handler, BufferedReader orders) throws Exception {
        long end = System.nanoTime() + WARM_UP_NS;
        for (int i = 0; i < WARM_UP && System.nanoTime() < end; i++) {
            roundTrip(handler, i);
        }
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] order = line.split(" ", 2);
            int operations = Integer.parseInt(order[0]);
            for (int i = 0; i < operations / 8 + 2; i++) {
                roundTrip(handler, i);
            }
            ByteBuffer took = ByteBuffer.allocate(8 * operations).order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < operations; i++) {
                took.putLong(roundTrip(handler, i));
            }
            tell(order[1], took);
        }
    }

    private void pong(FragmentHandler handler) {
        while (true) {
            receiveOne(handler);
            send(number);
        }
    }

    private void source(BufferedReader orders) throws Exception {
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            long operations = Long.parseLong(line.split(" ", 2)[0]);
            for (long i = 0; i < operations + operations / 8; i++) {
                send(i);
            }
            System.out.println("done");
        }
    }

    private void sink(FragmentHandler handler, BufferedReader orders) throws Exception {
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] order = line.split(" ", 2);
            long operations = Long.parseLong(order[0]);
            long warm = received + operations / 8;
            while (received < warm) {
                idle.idle(subscription.poll(handler, 64));
            }
            long timed = received;
            long begun = System.nanoTime();
            long end = warm + operations;
            while (received < end) {
                idle.idle(subscription.poll(handler, 64));
            }
            long took = System.nanoTime() - begun;
            if (number != operations + operations / 8 - 1) {
                throw new IllegalStateException("the last message came as " + number);
            }
            ByteBuffer told = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
            tell(order[1], told.putLong(took).putLong(end - timed));
        }
    }

    private static void tell(String file, ByteBuffer values) throws Exception {
        try (FileChannel out = FileChannel.open(Path.of(file), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            values.flip();
            while (values.hasRemaining()) {
                out.write(values);
            }
        }
        System.out.println("done");
    }
}
