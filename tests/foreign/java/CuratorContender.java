import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/**
 * Takes Curator's InterProcessMutex and a write lock again and again, in contention with others.
 *
 * <p>Arguments: address, directory, rounds. Whoever holds a lock makes a witness, which must not be
 * there, and adds one to a number by reading and writing it.
 */
public final class CuratorContender {

    private CuratorContender() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client = PatientCurator.started(args[0]);
        String directory = args[1];
        InterProcessLock mutex = new InterProcessMutex(client, directory + "/lock");
        InterProcessLock writing = new InterProcessReadWriteLock(client, directory + "/rw").writeLock();
        for (int round = 0; round < Integer.parseInt(args[2]); round++) {
            for (InterProcessLock lock : List.of(mutex, writing)) {
                if (!lock.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no lock in time");
                }
                inside(client, lock == mutex ? directory : directory + "/second");
                lock.release();
            }
        }
        client.close();
        System.out.println("done");
    }

    private static void inside(CuratorFramework client, String directory) throws Exception {
        client.create().withMode(CreateMode.EPHEMERAL).forPath(directory + "/witness");
        Stat stat = new Stat();
        byte[] data = client.getData().storingStatIn(stat).forPath(directory + "/number");
        int number = Integer.parseInt(new String(data, StandardCharsets.UTF_8)) + 1;
        byte[] next = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
        client.setData().withVersion(stat.getVersion()).forPath(directory + "/number", next);
        client.delete().forPath(directory + "/witness");
    }
}
