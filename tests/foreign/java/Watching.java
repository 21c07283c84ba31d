import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** A watcher that keeps its events. */
final class Watching implements Watcher {

    private final BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();

    @Override
    public void process(WatchedEvent event) {
        // Changes of the connection come to every watcher; only the session's own looks at them.
        if (event.getType() != Event.EventType.None) {
            events.add(event);
        }
    }

    void expect(Event.EventType type, String path) throws InterruptedException {
        WatchedEvent event = events.poll(Talk.PATIENCE, TimeUnit.SECONDS);
        if (event == null) {
            throw new Talk.Failed("no event " + type + " of " + path);
        }
        Talk.expect("event of " + path, event.getType() + " " + event.getPath(), type + " " + path);
    }

    /** No event is on its way: to be called after an answer that any would have preceded. */
    void expectNone() {
        Talk.expect("pending events", events.toString(), "[]");
    }
}
