import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/**
 * Uses Curator's InterProcessSemaphoreMutex, DistributedAtomicLong with a promotion, LeaderLatch and
 * PersistentTtlNode together with others.
 *
 * <p>Arguments: address, directory, rounds. It ends when the znode {@code end} is made in the
 * directory.
 */
public final class CuratorOthers {

    private static final int PAUSE_MS = 20;
    private static final int RETRIES = 10_000;
    private static final long TTL_MS = 2_000;

    private CuratorOthers() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = PatientCurator.started(args[0]);
        String directory = args[1];
        LeaderLatch latch = new LeaderLatch(client, directory + "/latch", "curator");
        latch.start();
        PersistentTtlNode node = new PersistentTtlNode(client, directory + "/ttl", TTL_MS, bytes("curator"));
        node.start();
        if (!node.waitForInitialCreate(PatientCurator.PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no node with a TTL");
        }
        InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, directory + "/mutex");
        PromotedToLock promotion = PromotedToLock.builder()
                .lockPath(directory + "/count-lock")
                .retryPolicy(new RetryNTimes(RETRIES, 1))
                .timeout(PatientCurator.PATIENCE, TimeUnit.SECONDS)
                .build();
        DistributedAtomicLong count =
                new DistributedAtomicLong(client, directory + "/count", new RetryNTimes(1, 1), promotion);
        for (int round = 0; round < Integer.parseInt(args[2]); round++) {
            if (!mutex.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no lock in time");
            }
            client.create().withMode(CreateMode.EPHEMERAL).forPath(directory + "/witness");
            client.delete().forPath(directory + "/witness");
            mutex.release();
            if (!count.increment().succeeded()) {
                throw new IllegalStateException("no increment");
            }
        }
        while (client.checkExists().forPath(directory + "/end") == null) {
            Thread.sleep(PAUSE_MS);
        }
        List<String> ids = latch.getParticipants().stream().map(Participant::getId).collect(Collectors.toList());
        if (!ids.equals(List.of("curator", "ours"))) {
            throw new IllegalStateException("participants: " + ids);
        }
        String data = new String(client.getData().forPath(directory + "/ttl"), StandardCharsets.UTF_8);
        if (!data.equals("ours")) {
            throw new IllegalStateException("data: " + data);
        }
        node.close();
        latch.close();
        client.close();
        System.out.println("done");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
