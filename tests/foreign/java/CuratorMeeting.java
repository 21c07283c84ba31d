import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/**
 * Enters and leaves Curator's DistributedDoubleBarrier together with others.
 *
 * <p>Arguments: address, directory, members, rounds. A mark before entering, and one before leaving:
 * whoever is inside finds all marks of the first kind, whoever has left all of the second.
 */
public final class CuratorMeeting {

    private CuratorMeeting() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = PatientCurator.started(args[0]);
        int members = Integer.parseInt(args[2]);
        for (int round = 0; round < Integer.parseInt(args[3]); round++) {
            String top = args[1] + "/" + round;
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, top + "/barrier", members);
            client.create().forPath(top + "/come/curator", new byte[0]);
            if (!barrier.enter(PatientCurator.PATIENCE, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not all came in time");
            }
            checkAllMarked(client, top + "/come", members);
            client.create().forPath(top + "/go/curator", new byte[0]);
            if (!barrier.leave(PatientCurator.PATIENCE, TimeUnit.SECONDS)) {
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
