import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.CreateMode;

/**
 * Shares recipes of Curator with another program, one after the other.
 *
 * <p>Arguments: address, directory, rounds. Marks in the directory {@code marks} tell the other
 * program how far this one is, and this one how far the other is.
 */
public final class CuratorShared {

    private static final int PAUSE_MS = 10;
    private static final int LEASES = 2;

    private final CuratorFramework client;
    private final String directory;
    private final int rounds;

    private CuratorShared(CuratorFramework client, String directory, int rounds) {
        this.client = client;
        this.directory = directory;
        this.rounds = rounds;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = PatientCurator.started(args[0]);
        CuratorShared shared = new CuratorShared(client, args[1], Integer.parseInt(args[2]));
        shared.numbers();
        shared.value();
        shared.barriers();
        shared.locks();
        shared.readers();
        shared.requests();
        shared.node();
        shared.members();
        shared.copies();
        shared.services();
        client.close();
        System.out.println("done");
    }

    private void numbers() throws Exception {
        SharedCount count = new SharedCount(client, directory + "/count", 0);
        count.start();
        DistributedAtomicInteger integer =
                new DistributedAtomicInteger(client, directory + "/integer", new RetryNTimes(10_000, 1));
        mark("counts");
        for (int round = 0; round < rounds; round++) {
            while (!count.trySetCount(count.getVersionedValue(), count.getVersionedValue().getValue() + 1)) {
                Thread.sleep(1);
            }
            check("an increment", integer.increment().succeeded());
        }
        until("all counts", () -> count.getCount() == 2 * rounds);
        until("all increments", () -> integer.get().postValue() == 2 * rounds);
        count.close();
    }

    private void value() throws Exception {
        SharedValue value = new SharedValue(client, directory + "/value", bytes("seed"));
        value.start();
        mark("value");
        until("the other's value", () -> text(value.getValue()).equals("ours"));
        value.setValue(bytes("curator"));
        value.close();
    }

    private void barriers() throws Exception {
        DistributedBarrier first = new DistributedBarrier(client, directory + "/first");
        first.setBarrier();
        mark("first");
        awaitMark("waits");
        first.removeBarrier();
        DistributedBarrier second = new DistributedBarrier(client, directory + "/second");
        awaitMark("second");
        mark("waits-too");
        check("an open barrier", second.waitOnBarrier(PatientCurator.PATIENCE, TimeUnit.SECONDS));
    }

    private void locks() throws Exception {
        InterProcessLock both = new InterProcessMultiLock(
                client, List.of(directory + "/multi/a", directory + "/multi/b"));
        InterProcessSemaphoreV2 semaphore =
                new InterProcessSemaphoreV2(client, directory + "/semaphore", LEASES);
        for (int round = 0; round < rounds; round++) {
            check("both locks", both.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS));
            String witness = directory + "/witness";
            client.create().withMode(CreateMode.EPHEMERAL).forPath(witness);
            client.delete().forPath(witness);
            both.release();
            Lease lease = semaphore.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS);
            check("a lease", lease != null);
            String inside = directory + "/inside/curator";
            client.create().withMode(CreateMode.EPHEMERAL).forPath(inside);
            check("two holders", client.getChildren().forPath(directory + "/inside").size() <= LEASES);
            client.delete().forPath(inside);
            semaphore.returnLease(lease);
        }
    }

    private void readers() throws Exception {
        InterProcessLock reading = new InterProcessReadWriteLock(client, directory + "/rw").readLock();
        check("a reader", reading.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS));
        mark("reads");
        awaitMark("writer-waits");
        reading.release();
    }

    private void requests() throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, directory + "/asked");
        CountDownLatch asked = new CountDownLatch(1);
        mutex.makeRevocable(lock -> asked.countDown());
        check("the lock", mutex.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS));
        mark("holds");
        check("a request", asked.await(PatientCurator.PATIENCE, TimeUnit.SECONDS));
        mutex.release();
        awaitMark("holds-too");
        Revoker.attemptRevoke(client, mutex.getParticipantNodes().iterator().next());
        check("the lock again", mutex.acquire(PatientCurator.PATIENCE, TimeUnit.SECONDS));
        mutex.release();
    }

    private void node() throws Exception {
        PersistentNode node =
                new PersistentNode(client, CreateMode.EPHEMERAL, false, directory + "/node", bytes("curator"));
        node.start();
        check("a node", node.waitForInitialCreate(PatientCurator.PATIENCE, TimeUnit.SECONDS));
        mark("node");
        awaitMark("node-waits");
        node.close();
    }

    private void members() throws Exception {
        GroupMember member = new GroupMember(client, directory + "/group", "curator", bytes("c"));
        member.start();
        until("both members", () -> member.getCurrentMembers().keySet().equals(Set.of("curator", "ours")));
        check("the payload", text(member.getCurrentMembers().get("ours")).equals("o"));
        mark("member");
        awaitMark("member-too");
        member.close();
    }

    private void copies() throws Exception {
        String root = directory + "/cached";
        CuratorCache tree = CuratorCache.build(client, root);
        CuratorCache single = CuratorCache.build(client, root, CuratorCache.Options.SINGLE_NODE_CACHE);
        tree.start();
        single.start();
        client.create().forPath(root + "/curator", bytes("c"));
        until("both children", () -> shows(tree, root + "/curator", "c") && shows(tree, root + "/ours", "o"));
        until("the node", () -> shows(single, root, "root") && single.size() == 1);
        tree.close();
        single.close();
    }

    private static boolean shows(CuratorCache cache, String path, String data) {
        return cache.get(path).filter(node -> text(node.getData()).equals(data)).isPresent();
    }

    private void services() throws Exception {
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder()
                .name("print")
                .id("curator")
                .address("10.0.0.1")
                .port(6310)
                .build();
        ServiceDiscovery<Void> discovery = ServiceDiscoveryBuilder.builder(Void.class)
                .client(client)
                .basePath(directory + "/services")
                .thisInstance(instance)
                .build();
        discovery.start();
        ServiceCache<Void> cache = discovery.serviceCacheBuilder().name("print").build();
        cache.start();
        ServiceProvider<Void> provider =
                discovery.serviceProviderBuilder().serviceName("print").build();
        provider.start();
        Set<String> both = new TreeSet<>(Set.of("curator", "ours"));
        until("both instances", () -> ids(discovery.queryForInstances("print")).equals(both));
        until("both in the cache", () -> ids(cache.getInstances()).equals(both));
        until("both in the provider", () -> ids(provider.getAllInstances()).equals(both));
        until("a chosen instance", () -> provider.getInstance().getId().equals("ours"));
        check("the port", discovery.queryForInstance("print", "ours").getPort() == 6311);
        mark("service");
        awaitMark("service-too");
        provider.close();
        cache.close();
        discovery.close();
    }

    private static Set<String> ids(Iterable<ServiceInstance<Void>> instances) {
        Set<String> ids = new TreeSet<>();
        instances.forEach(instance -> ids.add(instance.getId()));
        return ids;
    }

    private void mark(String name) throws Exception {
        client.create().forPath(directory + "/marks/" + name);
    }

    private void awaitMark(String name) throws Exception {
        until("the mark " + name, () -> client.checkExists().forPath(directory + "/marks/" + name) != null);
    }

    private static void until(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PatientCurator.PATIENCE);
        while (!holds.call()) {
            check(what, System.nanoTime() < end);
            Thread.sleep(PAUSE_MS);
        }
    }

    private static void check(String what, boolean holds) {
        if (!holds) {
            throw new IllegalStateException("not " + what);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
