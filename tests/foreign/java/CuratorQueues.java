import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/**
 * Puts items in Curator's DistributedQueue and its kinds with priorities, delays and ids, and takes
 * them, too, all with a lock path. Does the same with SimpleDistributedQueue.
 *
 * <p>Arguments: address, directory, items. Each item that is taken is noted as a znode of its name,
 * which must not be there. It ends when the znode {@code end} is made in the directory.
 */
public final class CuratorQueues {

    private static final int PAUSE_MS = 20;
    private static final int DELAY_MS = 100;

    private CuratorQueues() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = PatientCurator.started(args[0]);
        String directory = args[1];
        AtomicReference<Exception> failure = new AtomicReference<>();
        DistributedQueue<String> queue = QueueBuilder.builder(
                        client, new Notes(client, directory + "/seen", failure), new Text(), directory + "/queue")
                .lockPath(directory + "/locks")
                .buildQueue();
        DistributedPriorityQueue<String> jobs = QueueBuilder.builder(
                        client, new Notes(client, directory + "/seen-priority", failure), new Text(), directory + "/jobs")
                .lockPath(directory + "/job-locks")
                .buildPriorityQueue(0);
        DistributedDelayQueue<String> delayed = QueueBuilder.builder(
                        client, new Notes(client, directory + "/seen-delayed", failure), new Text(), directory + "/delayed")
                .lockPath(directory + "/delayed-locks")
                .buildDelayQueue();
        DistributedIdQueue<String> orders = QueueBuilder.builder(
                        client, new Notes(client, directory + "/seen-ids", failure), new Text(), directory + "/ids")
                .lockPath(directory + "/id-locks")
                .buildIdQueue();
        Notes simpleNotes = new Notes(client, directory + "/seen-simple", failure);
        SimpleDistributedQueue simple = new SimpleDistributedQueue(client, directory + "/simple");
        queue.start();
        jobs.start();
        delayed.start();
        orders.start();
        for (int number = 0; number < Integer.parseInt(args[2]); number++) {
            queue.put("curator-" + number);
            jobs.put("curator-" + number, number % 2 == 0 ? 5 : -1);
            delayed.put("curator-" + number, System.currentTimeMillis() + DELAY_MS);
            orders.put("curator-" + number, "a/b");
            simple.offer(("curator-" + number).getBytes(StandardCharsets.UTF_8));
        }
        while (failure.get() == null && client.checkExists().forPath(directory + "/end") == null) {
            byte[] item = simple.poll();
            if (item == null) {
                Thread.sleep(PAUSE_MS);
            } else {
                simpleNotes.consumeMessage(new String(item, StandardCharsets.UTF_8));
            }
        }
        queue.close();
        jobs.close();
        delayed.close();
        orders.close();
        client.close();
        if (failure.get() != null) {
            throw failure.get();
        }
        System.out.println("done");
    }

    private static final class Notes implements QueueConsumer<String> {
        private final CuratorFramework client;
        private final String seen;
        private final AtomicReference<Exception> failure;

        Notes(CuratorFramework client, String seen, AtomicReference<Exception> failure) {
            this.client = client;
            this.seen = seen;
            this.failure = failure;
        }

        @Override
        public void consumeMessage(String message) throws Exception {
            try {
                client.create().forPath(seen + "/" + message);
            } catch (Exception e) {
                failure.set(e);
                throw e;
            }
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
