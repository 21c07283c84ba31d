import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;

/** Curator's client with much patience, for programs of one test. */
final class PatientCurator {

    /** Seconds that anything may take. */
    static final int PATIENCE = 60;

    private PatientCurator() {}

    static CuratorFramework started(String address) {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(address)
                .sessionTimeoutMs(10_000)
                .connectionTimeoutMs(PATIENCE * 1000)
                .retryPolicy(new RetryNTimes(100, 100))
                .build();
        client.start();
        return client;
    }
}
