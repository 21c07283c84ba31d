import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Takes Curator's InterProcessMutex, LeaderSelector and LeaderLatch again and again and writes records
 * while it holds them.
 *
 * <p>Arguments: addresses, session timeout in ms, records of a turn. A record is written in one
 * transaction with a check of the own contender's znode, so that the servers refuse it once that is
 * gone. It ends when there is a znode /stop.
 */
public final class CuratorFenced {

    private static final int RETRY_MS = 100;

    private final String addresses;
    private final int timeoutMs;
    private final int count;

    private CuratorFenced(String[] args) {
        addresses = args[0];
        timeoutMs = Integer.parseInt(args[1]);
        count = Integer.parseInt(args[2]);
    }

    public static void main(String[] args) throws Exception {
        CuratorFenced program = new CuratorFenced(args);
        List<Thread> threads = List.of(
                new Thread(() -> program.takeTurns(program::mutexTurn)),
                new Thread(() -> program.takeTurns(program::latchTurn)),
                new Thread(() -> program.takeTurns(program::selectorTurns)));
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("done");
    }

    private interface Turn {
        void take(CuratorFramework client) throws Exception;
    }

    private void takeTurns(Turn turn) {
        try (CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(addresses)
                .sessionTimeoutMs(timeoutMs)
                .connectionTimeoutMs(timeoutMs)
                .retryPolicy(new RetryForever(RETRY_MS))
                .build()) {
            client.start();
            while (!isOver(client)) {
                try {
                    turn.take(client);
                } catch (Exception failure) {
                    // A session that is over, or a connection that is lost: with the next one it goes on.
                    System.out.println(failure);
                }
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static boolean isOver(CuratorFramework client) throws Exception {
        return client.checkExists().forPath("/stop") != null;
    }

    /** The path of the znode is for those who extend the class, so this one does. */
    private static final class OwnMutex extends InterProcessMutex {
        OwnMutex(CuratorFramework client) {
            super(client, "/queues/mutex");
        }

        String path() {
            return getLockPath();
        }
    }

    private void mutexTurn(CuratorFramework client) throws Exception {
        OwnMutex mutex = new OwnMutex(client);
        mutex.acquire();
        try {
            for (int number = 0; number < count; number++) {
                record(client, "mutex", mutex.path());
            }
        } finally {
            mutex.release();
        }
    }

    private void latchTurn(CuratorFramework client) throws Exception {
        try (LeaderLatch latch = new LeaderLatch(client, "/queues/latch", "Curator")) {
            latch.start();
            latch.await();
            for (int number = 0; number < count; number++) {
                // The znode that came first, not getOurPath(): a latch that is at its start while the
                // connection comes back makes a second znode, and for a moment has that one and the
                // leadership of the first. If the first is gone, the servers refuse the record.
                String own = latch.getLastPathIsLeader();
                if (own == null || !latch.hasLeadership()) {
                    return;
                }
                record(client, "latch", own);
            }
        }
    }

    /**
     * Turns with one selector to the end. It does not tell the path of its znode, but the znode has the
     * id that was given to the selector, and no other one has it; of two, one that is about to be deleted
     * is the earlier.
     */
    private void selectorTurns(CuratorFramework client) throws Exception {
        String id = UUID.randomUUID().toString();
        CountDownLatch over = new CountDownLatch(1);
        InterProcessMutex participants = new InterProcessMutex(client, "/queues/selector");
        LeaderSelectorListenerAdapter listener = new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework sameClient) throws Exception {
                String own = null;
                for (String path : participants.getParticipantNodes()) {
                    if (id.equals(dataOf(client, path))) {
                        own = path;
                    }
                }
                for (int number = 0; own != null && number < count; number++) {
                    record(client, "selector", own);
                }
                if (isOver(client)) {
                    over.countDown();
                }
            }
        };
        try (LeaderSelector selector = new LeaderSelector(client, "/queues/selector", listener)) {
            selector.setId(id);
            selector.autoRequeue();
            selector.start();
            over.await();
        }
    }

    private static String dataOf(CuratorFramework client, String path) throws Exception {
        try {
            return new String(client.getData().forPath(path), StandardCharsets.UTF_8);
        } catch (KeeperException.NoNodeException gone) {
            return null;
        }
    }

    private static void record(CuratorFramework client, String queue, String own) throws Exception {
        client.transaction().forOperations(
                client.transactionOp().check().forPath(own),
                client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                        .forPath("/records/" + queue + "/Curator/r-", own.getBytes(StandardCharsets.UTF_8)));
    }
}
