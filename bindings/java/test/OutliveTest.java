import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import outlive.Client;
import outlive.Code;
import outlive.Condvar;
import outlive.Domain;
import outlive.Guard;
import outlive.Mutex;
import outlive.Opening;
import outlive.OutliveException;
import outlive.Queue;
import outlive.Semaphore;
import outlive.Server;
import outlive.State;
import outlive.Topic;
import outlive.Wait;

/**
 * The package's tests: each method that begins with a small letter and takes a domain. Tests that kill start this
 * program again with a role.
 */
final class OutliveTest {
    /** Bounds a wait of a test: a hang must fail. */
    private static final Wait A_MINUTE = Wait.upTo(Duration.ofMinutes(1));

    private static final AtomicInteger DOMAINS = new AtomicInteger();

    private OutliveTest() {}

    /** What may throw. */
    private interface Act {
        void run() throws Exception;
    }

    private static void expect(Code wanted, Act act) throws Exception {
        try {
            act.run();
        } catch (OutliveException error) {
            check(error.code() == wanted, "expected " + wanted + ", got " + error.code() + ": " + error.getMessage());
            return;
        }
        throw new AssertionError("expected " + wanted + ", and nothing was thrown");
    }

    private static void expect(Class<? extends Exception> wanted, Act act) throws Exception {
        try {
            act.run();
        } catch (Exception error) {
            check(wanted.isInstance(error), "expected " + wanted + ", got " + error);
            return;
        }
        throw new AssertionError("expected " + wanted + ", and nothing was thrown");
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static Mutex mutex(Domain domain) {
        return Mutex.open(domain, "m", Opening.OPEN_OR_CREATE, 8, null);
    }

    private static Queue queue(Domain domain) {
        return Queue.open(domain, "q", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT);
    }

    // What other processes do, until they are killed.

    static void role(String role, Domain domain) throws Exception {
        switch (role) {
            case "holds" -> {
                Guard guard = mutex(domain).lock(Wait.FOREVER);
                guard.value().set(ValueLayout.JAVA_LONG, 0, 7);
                System.out.println("held");
            }
            case "sends" -> {
                Queue.Sender sender = queue(domain).sender();
                for (long number = 1; ; number++) {
                    byte[] message = new byte[8 + (int) (number % 3000)];
                    ByteBuffer.wrap(message).putLong(number);
                    sender.send(message, Wait.FOREVER);
                    System.out.println(number);
                }
            }
            case "peeks" -> System.out.println(text(queue(domain).receiver(Wait.NOT).peek(Wait.FOREVER).data()));
            case "serves" -> {
                Server server = Server.open(domain, "s", Opening.OPEN_OR_CREATE, 0, Wait.NOT);
                System.out.println("serving");
                server.next(Wait.FOREVER);
                System.out.println("begun");
            }
            default -> throw new IllegalArgumentException(role);
        }
        Thread.sleep(Duration.ofHours(1));
    }

    /** A process with a role. */
    private static final class Child implements AutoCloseable {
        private final Process process;
        private final BufferedReader lines;

        Child(Domain domain, String role) throws Exception {
            process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                            "--enable-native-access=ALL-UNNAMED", "-XX:TieredStopAtLevel=1",
                            "-cp", System.getProperty("java.class.path"), "OutliveTest", role, domain.path())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        }

        String line() throws Exception {
            // A process that hangs says nothing more.
            CompletableFuture.delayedExecutor(2, TimeUnit.MINUTES).execute(process::destroyForcibly);
            return lines.readLine();
        }

        void expect(String wanted) throws Exception {
            String line = line();
            check(wanted.equals(line), "expected " + wanted + ", got " + line);
        }

        /** SIGKILL; returns the lines that were written and not read yet. */
        List<String> kill() throws Exception {
            // Not the process's own method, which closes its output.
            process.toHandle().destroyForcibly();
            List<String> rest = lines.lines().toList();
            process.waitFor();
            return rest;
        }

        @Override
        public void close() throws Exception {
            process.destroyForcibly();
            process.waitFor();
        }
    }

    // The tests.

    static void aKilledHolderIsToldToEachNextOneUntilOneRepairs(Domain domain) throws Exception {
        Mutex mutex = mutex(domain);
        try (Child holder = new Child(domain, "holds")) {
            holder.expect("held");
            expect(Code.BUSY, () -> mutex.lock(Wait.NOT));
            check(mutex.holder().orElseThrow().pid() == holder.process.pid(), "the child holds it");
            holder.kill();
        }
        expect(Code.OWNER_DIED, () -> mutex.lock(A_MINUTE));
        expect(Code.OWNER_DIED, () -> mutex.lock(A_MINUTE));
        try (Guard guard = mutex.lockToRepair(A_MINUTE)) {
            check(guard.ownerDied() && guard.value().get(ValueLayout.JAVA_LONG, 0) == 7, "inherited");
            guard.value().set(ValueLayout.JAVA_LONG, 0, 8);
            guard.markConsistent();
        }
        MemorySegment stale;
        try (Guard guard = mutex.lock(A_MINUTE)) {
            stale = guard.value();
            check(!guard.ownerDied() && stale.get(ValueLayout.JAVA_LONG, 0) == 8, "repaired");
        }
        expect(IllegalStateException.class, () -> stale.get(ValueLayout.JAVA_LONG, 0));
        check(mutex.holder().isEmpty(), "nothing holds it");
    }

    static void aThreadThatEndsWithALockTells(Domain domain) throws Exception {
        Mutex mutex = mutex(domain);
        Thread thread = new Thread(() -> {
            try {
                mutex.lock(Wait.FOREVER);
            } catch (InterruptedException never) {
                throw new AssertionError(never);
            }
        });
        thread.start();
        thread.join();
        expect(Code.OWNER_DIED, () -> mutex.lock(A_MINUTE));
    }

    static void aVirtualThreadTakesNoLock(Domain domain) throws Exception {
        Mutex mutex = mutex(domain);
        Semaphore semaphore = Semaphore.open(domain, "s", Opening.OPEN_OR_CREATE, 1, 0);
        AtomicInteger refused = new AtomicInteger();
        Thread.ofVirtual().start(() -> {
            try {
                expect(IllegalStateException.class, () -> mutex.lock(Wait.NOT));
                refused.incrementAndGet();
                expect(IllegalStateException.class, () -> semaphore.acquire(1, Wait.NOT));
                refused.incrementAndGet();
                // A queue has no owner.
                queue(domain).sender().send(bytes("x"), Wait.FOREVER);
                refused.incrementAndGet();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }).join();
        check(refused.get() == 3, "refused");
        mutex.lock(Wait.NOT).close();
    }

    static void permitsAreGivenBackAfterAClose(Domain domain) throws Exception {
        Semaphore semaphore = Semaphore.open(domain, "s", Opening.OPEN_OR_CREATE, 2, 0);
        Semaphore other = Semaphore.open(domain, "s", Opening.OPEN, 0, 0);
        semaphore.acquire(2, Wait.NOT);
        semaphore.close();
        expect(IllegalStateException.class, () -> semaphore.acquire(1, Wait.NOT));
        semaphore.release(1);
        semaphore.release(1);
        expect(IllegalStateException.class, () -> semaphore.release(1));
        check(other.available() == 2, "both are free");
    }

    static void unlockingInAnotherThreadIsRefused(Domain domain) throws Exception {
        Guard guard = mutex(domain).lock(A_MINUTE);
        Code[] refused = {null};
        Thread thread = new Thread(() -> {
            try {
                guard.close();
            } catch (OutliveException error) {
                refused[0] = error.code();
            }
        });
        thread.start();
        thread.join();
        check(refused[0] == Code.NOT_OWNER, "refused: " + refused[0]);
        guard.close();
        guard.close();
    }

    static void threadsTakeTurns(Domain domain) throws Exception {
        Mutex mutex = mutex(domain);
        Thread[] threads = new Thread[4];
        for (int at = 0; at < threads.length; at++) {
            threads[at] = new Thread(() -> {
                for (int turn = 0; turn < 500; turn++) {
                    try (Guard guard = mutex.lock(Wait.FOREVER)) {
                        MemorySegment value = guard.value();
                        value.set(ValueLayout.JAVA_LONG, 0, value.get(ValueLayout.JAVA_LONG, 0) + 1);
                    } catch (InterruptedException never) {
                        throw new AssertionError(never);
                    }
                }
            });
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        try (Guard guard = mutex.lock(A_MINUTE)) {
            long count = guard.value().get(ValueLayout.JAVA_LONG, 0);
            check(count == 2000, "count " + count);
        }
    }

    static void anInterruptEndsAWait(Domain domain) throws Exception {
        Queue.Receiver receiver = queue(domain).receiver(Wait.NOT);
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                receiver.recv(Wait.FOREVER);
                interrupted.complete(false);
            } catch (InterruptedException expected) {
                interrupted.complete(true);
            }
        });
        thread.start();
        thread.interrupt();
        check(interrupted.get(1, TimeUnit.MINUTES), "interrupted");
        expect(Code.TIMED_OUT, () -> receiver.recv(Wait.upTo(Duration.ofMillis(20))));
        expect(Code.WOULD_BLOCK, () -> receiver.recv(Wait.NOT));
    }

    static void closingEndsAWait(Domain domain) throws Exception {
        Queue queue = queue(domain);
        Queue.Receiver receiver = queue.receiver(Wait.NOT);
        CompletableFuture<Exception> ended = new CompletableFuture<>();
        new Thread(() -> {
            try {
                receiver.recv(Wait.FOREVER);
            } catch (Exception error) {
                ended.complete(error);
            }
        }).start();
        Thread.sleep(20);
        receiver.close();
        receiver.close();
        check(ended.get(1, TimeUnit.MINUTES) instanceof IllegalStateException, "ended");
        expect(IllegalStateException.class, () -> receiver.recv(Wait.NOT));
        // Its place is free once the wait has left.
        queue.receiver(A_MINUTE).close();
    }

    static void nothingAcknowledgedIsLostWithAKilledSender(Domain domain) throws Exception {
        long acknowledged = 0;
        Queue queue = queue(domain);
        try (Child sender = new Child(domain, "sends")) {
            while (acknowledged < 100) {
                acknowledged = Long.parseLong(sender.line());
            }
            for (String line : sender.kill()) {
                acknowledged = Long.parseLong(line);
            }
        }
        Queue.Receiver receiver = queue.receiver(A_MINUTE);
        long received = 0;
        while (true) {
            byte[] message;
            try {
                message = receiver.recv(Wait.NOT);
            } catch (OutliveException error) {
                check(error.code() == Code.WOULD_BLOCK, error.toString());
                break;
            }
            received++;
            long number = ByteBuffer.wrap(message).getLong();
            check(number == received && message.length == 8 + number % 3000, "message " + number + " at " + received);
        }
        // Perhaps one whose sender was killed before it could say so.
        check(received == acknowledged || received == acknowledged + 1, acknowledged + " and " + received);
    }

    static void whatAKilledReceiverHadNotCommittedComesAgain(Domain domain) throws Exception {
        Queue queue = queue(domain);
        queue.sender().sendBatch(List.of(bytes("first"), new byte[0], bytes("second")), A_MINUTE);
        try (Child peeking = new Child(domain, "peeks")) {
            peeking.expect("first");
            expect(Code.BUSY, () -> queue.receiver(Wait.NOT));
            peeking.kill();
        }
        Queue.Receiver receiver = queue.receiver(A_MINUTE);
        Queue.Peeked peeked = receiver.peek(A_MINUTE);
        check(text(peeked.data()).equals("first") && peeked.isRedelivered(), "again");
        receiver.commit();
        check(receiver.recv(A_MINUTE).length == 0 && text(receiver.recv(A_MINUTE)).equals("second"), "the others");
        byte[] large = new byte[1_000_000];
        Arrays.fill(large, (byte) 3);
        queue.sender().send(large, A_MINUTE);
        check(Arrays.equals(receiver.recv(A_MINUTE), large), "a large one");
    }

    static void aKilledServerHadBegun(Domain domain) throws Exception {
        Client client = Client.open(domain, "s", Opening.OPEN_OR_CREATE, 0, false);
        expect(Code.NO_PEER, () -> client.call(bytes("x"), A_MINUTE));
        try (Child server = new Child(domain, "serves")) {
            server.expect("serving");
            Client.Call call = client.begin(bytes("x"), A_MINUTE);
            server.expect("begun");
            server.kill();
            expect(Code.SERVER_DIED_BEGUN, () -> call.next(A_MINUTE));
        }
    }

    static void aServiceRepliesAndFails(Domain domain) throws Exception {
        Client client = Client.open(domain, "s", Opening.OPEN_OR_CREATE, 0, true);
        Server server = Server.open(domain, "s", Opening.OPEN_OR_CREATE, 0, Wait.NOT);
        Thread serving = new Thread(() -> {
            try {
                for (int at = 0; at < 3; at++) {
                    Server.Request request = server.next(A_MINUTE);
                    switch (text(request.data())) {
                        case "fail" -> request.fail("no such thing");
                        case "drop" -> request.close();
                        default -> request.reply(bytes("hello!"));
                    }
                }
            } catch (InterruptedException never) {
                throw new AssertionError(never);
            }
        });
        serving.start();
        check(text(client.call(bytes("hello"), A_MINUTE)).equals("hello!"), "replied");
        expect(Code.FAILED, () -> client.call(bytes("fail"), A_MINUTE));
        expect(Code.DROPPED, () -> client.call(bytes("drop"), A_MINUTE));
        serving.join();
        server.close();
    }

    static void aTopicLendsItsMemory(Domain domain) throws Exception {
        Topic topic = Topic.open(domain, "t", Opening.OPEN_OR_CREATE, new Topic.Options());
        Topic.Subscriber subscriber = topic.subscriber(new Topic.SubscriberOptions());
        Topic.Publisher publisher = topic.publisher();
        Topic.Publisher.Loan loan = publisher.loan(1 << 20);
        loan.data().fill((byte) 5);
        MemorySegment lent = loan.data();
        loan.publish(new Topic.Header(0, 4, 3), A_MINUTE);
        expect(IllegalStateException.class, () -> lent.fill((byte) 6));
        expect(IllegalStateException.class, () -> loan.publish(null, A_MINUTE));
        Topic.Sample sample = subscriber.recv(A_MINUTE);
        publisher.close();
        subscriber.close();
        MemorySegment data = sample.data();
        check(data.byteSize() == 1 << 20 && data.get(ValueLayout.JAVA_BYTE, 1234) == 5, "as it was lent");
        check(sample.header().key() == 3 && sample.header().frame() == 4 && sample.header().stamp() != 0, "header");
        expect(IllegalArgumentException.class, () -> data.fill((byte) 6));
        sample.close();
        sample.close();
        expect(IllegalStateException.class, () -> data.get(ValueLayout.JAVA_BYTE, 0));
        expect(IllegalStateException.class, sample::sequence);
    }

    static void aStateHasOneWriter(Domain domain) throws Exception {
        State state = State.open(domain, "st", Opening.OPEN_OR_CREATE, 100, bytes("first"));
        State.Writer writer = state.writer(Wait.NOT);
        expect(Code.BUSY, () -> state.writer(Wait.upTo(Duration.ofMillis(20))));
        long seen = state.get().version();
        long version = writer.set(bytes("second"));
        check(state.waitChanged(seen, A_MINUTE) == version, "changed");
        check(text(state.get().data()).equals("second"), "second");
        expect(Code.TOO_LARGE, () -> writer.set(new byte[101]));
    }

    static void aConditionIsWaitedFor(Domain domain) throws Exception {
        Mutex mutex = mutex(domain);
        Condvar condvar = Condvar.open(domain, "c", Opening.OPEN_OR_CREATE);
        Thread waiter = new Thread(() -> {
            try (Guard guard = mutex.lock(Wait.FOREVER)) {
                while (guard.value().get(ValueLayout.JAVA_LONG, 0) == 0) {
                    condvar.await(mutex, guard);
                }
            } catch (InterruptedException never) {
                throw new AssertionError(never);
            }
        });
        waiter.start();
        try (Guard guard = mutex.lock(A_MINUTE)) {
            guard.value().set(ValueLayout.JAVA_LONG, 0, 1);
            condvar.notifyEach();
        }
        waiter.join(60_000);
        check(!waiter.isAlive(), "woken");
    }

    static void refusalsHaveCodes(Domain domain) throws Exception {
        expect(Code.NOT_FOUND, () -> Queue.open(domain, "none", Opening.OPEN, Queue.Options.DEFAULT));
        expect(Code.INVALID, () -> Queue.open(domain, "q/r", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT));
        expect(Code.INVALID, () -> Queue.open(domain, "q\0", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT));
        mutex(domain).close();
        expect(Code.OTHER_TYPE, () -> Mutex.open(domain, "m", Opening.OPEN_OR_CREATE, 16, null));
        expect(Code.OTHER_KIND, () -> Queue.open(domain, "m", Opening.OPEN_OR_CREATE, Queue.Options.DEFAULT));
        expect(Code.EXISTS, () -> Mutex.open(domain, "m", Opening.CREATE_NEW, 8, null));
        expect(IllegalArgumentException.class, () -> Wait.upTo(Duration.ofMillis(-1)));
        domain.close();
        expect(IllegalStateException.class, () -> queue(domain));
    }

    private static boolean passes(Method test) {
        Path folder = Path.of("/dev/shm/outlive-java-test-" + ProcessHandle.current().pid() + "-" + DOMAINS.incrementAndGet());
        try (Domain domain = Domain.open(folder.toString(), Opening.CREATE_NEW)) {
            test.invoke(null, domain);
            return true;
        } catch (ReflectiveOperationException error) {
            System.out.println("FAILED " + test.getName());
            error.getCause().printStackTrace(System.out);
            return false;
        } finally {
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            } catch (java.io.IOException gone) {
                System.out.println(gone);
            }
        }
    }

    /** Runs all tests, or plays a role. */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 2) {
            role(arguments[0], Domain.open(arguments[1], Opening.OPEN));
            return;
        }
        List<Method> tests = Arrays.stream(OutliveTest.class.getDeclaredMethods())
                .filter(method -> Arrays.equals(method.getParameterTypes(), new Class<?>[] {Domain.class}))
                .filter(method -> method.getReturnType() == void.class && !method.isSynthetic())
                .sorted(Comparator.comparing(Method::getName))
                .toList();
        long passed = tests.stream().filter(OutliveTest::passes).count();
        System.out.println(passed + " passed, " + (tests.size() - passed) + " failed");
        System.exit(passed == tests.size() && passed > 0 ? 0 : 1);
    }
}
