import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import outlive.Client;
import outlive.Opening;
import outlive.OutliveException;
import outlive.Server;

/** {@code client.} and {@code server.} */
final class Services {
    private static final Map<String, Client> CLIENTS = new HashMap<>();
    private static final Map<String, Server> SERVERS = new HashMap<>();
    // There once: what was taken or begun last, and why a service failed.
    private static Server.Request request;
    private static Server.ReplyStream replies;
    private static Client.Call call;
    private static String failed;

    private Services() {}

    /** A reply as an answer; keeps why there is none. */
    private static String heard(Callable<Optional<byte[]>> ask) throws Exception {
        try {
            return ask.call().map(Line::show).orElse("end");
        } catch (OutliveException error) {
            failed = error.getMessage();
            throw error;
        }
    }

    static void add() {
        Map<String, Driver.Verb> client = new HashMap<>();
        client.put("open", w -> {
            CLIENTS.put(w[0], Client.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE, 0, Line.has(w, "wait")));
            return null;
        });
        client.put("prefault", w -> {
            CLIENTS.get(w[0]).prefault(Line.number(w[1]), Line.number(w[2]));
            return null;
        });
        client.put("call", w -> heard(() -> Optional.of(CLIENTS.get(w[0]).call(Line.message(w[1]), Line.until(w[2])))));
        client.put("begin", w -> {
            if (call != null) {
                call.close();
            }
            call = CLIENTS.get(w[0]).begin(Line.message(w[1]), Line.until(w[2]));
            return null;
        });
        client.put("next", w -> heard(() -> call.next(Line.until(w[0]))));
        client.put("failure", w -> failed);
        client.put("alive", w -> {
            CLIENTS.get(w[0]).assertLiveliness();
            return null;
        });
        Driver.family("client", client);
        Map<String, Driver.Verb> server = new HashMap<>();
        server.put("open", w -> {
            long within = Line.option(w, "within");
            SERVERS.put(w[0], Server.open(Driver.domain, w[0], Opening.OPEN_OR_CREATE, Line.option(w, "servers"),
                    Line.until(within == 0 ? "try" : Long.toString(within))));
            return null;
        });
        server.put("prefault", w -> {
            SERVERS.get(w[0]).prefault(Line.number(w[1]), Line.number(w[2]));
            return null;
        });
        server.put("next", w -> {
            if (request != null) {
                request.close();
            }
            request = SERVERS.get(w[0]).next(Line.until(w[1]));
            return Line.show(request.data());
        });
        server.put("client", w -> request.client().pid());
        server.put("cancelled", w -> request.isCancelled() ? "yes" : "no");
        server.put("wait_cancelled", w -> {
            request.waitCancelled(Line.until(w[0]));
            return null;
        });
        server.put("reply", w -> {
            request.reply(Line.message(w[0]));
            return null;
        });
        server.put("fail", w -> {
            request.fail(w[0]);
            return null;
        });
        server.put("drop", w -> {
            request.close();
            return null;
        });
        server.put("stream", w -> {
            replies = request.stream();
            return null;
        });
        server.put("send", w -> {
            replies.send(Line.message(w[0]), Line.until(w[1]));
            return null;
        });
        server.put("finish", w -> {
            replies.finish();
            return null;
        });
        server.put("fail_stream", w -> {
            replies.fail(w[0]);
            return null;
        });
        Driver.family("server", server);
    }
}
