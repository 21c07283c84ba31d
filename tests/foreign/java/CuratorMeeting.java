import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.RetryNTimes;

/**
 * Enters and leaves Curator's DistributedDoubleBarrier together with others.
 *
 * <p>Arguments: address, directory, members, rounds. A mark before entering, and one before leaving:
 * whoever is inside finds all marks of the first kind, whoever has left all of the second.
 */
public final class CuratorMeeting {

    private static final int PATIENCE = 60;

    private CuratorMeeting() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(10_000)
                .connectionTimeoutMs(PATIENCE * 1000)
                .retryPolicy(new RetryNTimes(100, 100))
                .build();
        client.start();
        int members = Integer.parseInt(args[2]);
        for (int round = 0; round < Integer.parseInt(args[3]); round++) {
            String top = args[1] + "/" + round;
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, top + "/barrier", members);
            client.create().forPath(top + "/come/curator", new byte[0]);
            if (!barrier.enter(PATIENCE, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not all came in time");
            }
            checkAllMarked(client, top + "/come", members);
            client.create().forPath(top + "/go/curator", new byte[0]);
            if (!barrier.leave(PATIENCE, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not all left in time");
            }
            checkAllMarked(client, top + "/go", members);
        }
        client.close();
        System.out.println("done");
    }

    private static void checkAllMarked(CuratorFramework client, String step, int members) throws Exception {
        client.sync().forPath(step);
        List<String> found = client.getChildren().forPath(step);
        if (found.size() != members) {
            throw new IllegalStateException(step + ": " + found);
        }
    }
}
