import static org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeCreated;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** The common scenario with Curator, and some of its recipes. */
public final class CuratorScenario {

    private static final String BASE = "/curator";

    private final String address;
    private CuratorFramework zk;

    private CuratorScenario(String address) {
        this.address = address;
    }

    public static void main(String[] args) {
        Talk.main(args, CuratorScenario::hold, at -> new CuratorScenario(at).run());
    }

    private static CuratorFramework connect(String address, int timeout, String user)
            throws Exception {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
                .connectString(address)
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(Talk.PATIENCE * 1000)
                .retryPolicy(new RetryNTimes(100, 100));
        if (user != null) {
            builder.authorization("digest", Talk.bytes(user));
        }
        CuratorFramework client = builder.build();
        client.start();
        Talk.expect("connected", client.blockUntilConnected(Talk.PATIENCE, TimeUnit.SECONDS), true);
        return client;
    }

    private static void hold(String address, String path) throws Exception {
        connect(address, 2_000, null).create().withMode(CreateMode.EPHEMERAL).forPath(path);
    }

    private void run() throws Exception {
        Talk.step("connect", () -> {
            zk = connect(address, 10_000, null);
            make(BASE, "");
        });
        Talk.step("create-read", this::createRead);
        Talk.step("versions", this::versions);
        Talk.step("children", this::children);
        Talk.step("sequence", this::sequence);
        Talk.step("ephemeral-closed", this::ephemeralClosed);
        Talk.step("ephemeral-expired", this::ephemeralExpired);
        Talk.step("watches", this::watches);
        Talk.step("multi", this::multi);
        Talk.step("acl", this::acl);
        Talk.step("locks-and-leaders", this::locksAndLeaders);
        Talk.step("cache", this::cache);
        Talk.step("restart", () -> reconnect("restart"));
        Talk.step("crash", () -> reconnect("crash"));
        Talk.step("close", this::close);
    }

    private String make(String path, String data) throws Exception {
        return zk.create().forPath(path, Talk.bytes(data));
    }

    private static long session(CuratorFramework client) throws Exception {
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    private void createRead() throws Exception {
        String path = BASE + "/node";
        Talk.expect("created path", make(path, "first"), path);
        Stat stat = new Stat();
        Talk.expect("data", Talk.text(zk.getData().storingStatIn(stat).forPath(path)), "first");
        Talk.expect("version", stat.getVersion(), 0);
        Talk.expect("exists", zk.checkExists().forPath(path), stat);
        Talk.expect("exists of nothing", zk.checkExists().forPath(BASE + "/nothing"), null);
        Talk.expectError(KeeperException.NoNodeException.class,
                () -> zk.getData().forPath(BASE + "/nothing"));
        Talk.expectError(KeeperException.NodeExistsException.class, () -> make(path, ""));
        zk.create().creatingParentsIfNeeded().forPath(BASE + "/a/b/c", Talk.bytes("deep"));
        Talk.expect("deep", Talk.text(zk.getData().forPath(BASE + "/a/b/c")), "deep");
        zk.create().creatingParentContainersIfNeeded().forPath(BASE + "/x/y", Talk.bytes("in"));
        Talk.expect("in a container", Talk.text(zk.getData().forPath(BASE + "/x/y")), "in");
        zk.create().orSetData().storingStatIn(stat).forPath(path, Talk.bytes("again"));
        Talk.expect("data set instead", zk.checkExists().forPath(path).getVersion(), 1);
        zk.create().compressed().forPath(BASE + "/packed", new byte[10_000]);
        byte[] unpacked = zk.getData().decompressed().forPath(BASE + "/packed");
        Talk.expect("compressed", unpacked.length, 10_000);
    }

    private void versions() throws Exception {
        String path = BASE + "/node";
        Stat stat = zk.setData().withVersion(1).forPath(path, Talk.bytes("second"));
        Talk.expect("version", stat.getVersion(), 2);
        Talk.expectError(KeeperException.BadVersionException.class,
                () -> zk.setData().withVersion(0).forPath(path, Talk.bytes("third")));
        Talk.expect("data", Talk.text(zk.getData().forPath(path)), "second");
        Talk.expectError(KeeperException.BadVersionException.class,
                () -> zk.delete().withVersion(0).forPath(path));
        zk.delete().guaranteed().withVersion(2).forPath(path);
        Talk.expect("deleted", zk.checkExists().forPath(path), null);
        Talk.expectError(KeeperException.NoNodeException.class, () -> zk.delete().forPath(path));
        zk.delete().quietly().forPath(path);
    }

    private void children() throws Exception {
        String path = BASE + "/parent";
        make(path, "");
        for (String name : List.of("b", "a", "c")) {
            make(path + "/" + name, "");
        }
        Stat stat = new Stat();
        Talk.expect("children", sorted(zk.getChildren().storingStatIn(stat).forPath(path)),
                List.of("a", "b", "c"));
        Talk.expect("cversion", stat.getCversion(), 3);
        Talk.expectError(KeeperException.NotEmptyException.class, () -> zk.delete().forPath(path));
        zk.delete().deletingChildrenIfNeeded().forPath(path);
        Talk.expect("deleted with children", zk.checkExists().forPath(path), null);
    }

    private void sequence() throws Exception {
        String path = BASE + "/queue";
        make(path, "");
        for (int number = 0; number < 3; number++) {
            String made = zk.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                    .forPath(path + "/item-");
            Talk.expect("sequence node", made, String.format("%s/item-%010d", path, number));
        }
        String made = zk.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(path + "/item-");
        Talk.expect("protected node", made.endsWith("-item-0000000003"), true);
        zk.delete().forPath(made);
    }

    private void ephemeralClosed() throws Exception {
        String path = BASE + "/ephemeral";
        CuratorFramework other = connect(address, 10_000, null);
        other.create().withMode(CreateMode.EPHEMERAL).forPath(path);
        Watching watch = new Watching();
        Stat stat = zk.checkExists().usingWatcher(watch).forPath(path);
        Talk.expect("owner", stat.getEphemeralOwner(), session(other));
        other.close();
        watch.expect(NodeDeleted, path);
        Talk.expect("node of a closed session", zk.checkExists().forPath(path), null);
    }

    private void ephemeralExpired() throws Exception {
        String path = BASE + "/held";
        Talk.ask("hold " + path);
        Watching watch = new Watching();
        long owner = zk.checkExists().usingWatcher(watch).forPath(path).getEphemeralOwner();
        Talk.expect("another's", owner != 0 && owner != session(zk), true);
        Talk.ask("kill-holder");
        watch.expect(NodeDeleted, path);
        Talk.expect("node of an expired session", zk.checkExists().forPath(path), null);
    }

    private void watches() throws Exception {
        String path = BASE + "/watched";
        Watching watch = new Watching();
        Talk.expect("not there", zk.checkExists().usingWatcher(watch).forPath(path), null);
        make(path, "0");
        watch.expect(NodeCreated, path);
        zk.setData().forPath(path, Talk.bytes("1"));
        zk.sync().forPath(path);
        zk.checkExists().forPath(path);
        watch.expectNone();
        for (String value : List.of("2", "3")) {
            zk.getData().usingWatcher(watch).forPath(path);
            zk.setData().forPath(path, Talk.bytes(value));
            watch.expect(NodeDataChanged, path);
        }
        for (String name : List.of("/one", "/two")) {
            zk.getChildren().usingWatcher(watch).forPath(path);
            make(path + name, "");
            watch.expect(NodeChildrenChanged, path);
        }
        zk.delete().deletingChildrenIfNeeded().forPath(path);
        watch.expectNone();
    }

    private void multi() throws Exception {
        String path = BASE + "/multi";
        List<CuratorTransactionResult> results = zk.transaction().forOperations(
                zk.transactionOp().create().forPath(path, Talk.bytes("")),
                zk.transactionOp().create().forPath(path + "/a", Talk.bytes("1")),
                zk.transactionOp().check().withVersion(0).forPath(path),
                zk.transactionOp().setData().withVersion(0).forPath(path + "/a", Talk.bytes("2")),
                zk.transactionOp().delete().withVersion(1).forPath(path + "/a"));
        Talk.expect("made", results.get(1).getResultPath(), path + "/a");
        Talk.expect("set", results.get(3).getResultStat().getVersion(), 1);
        Talk.expect("children", zk.getChildren().forPath(path), List.of());
        Talk.expectError(KeeperException.BadVersionException.class,
                () -> zk.transaction().forOperations(
                        zk.transactionOp().create().forPath(path + "/b"),
                        zk.transactionOp().check().withVersion(7).forPath(path)));
        Talk.expect("nothing of it happened", zk.getChildren().forPath(path), List.of());
    }

    private void acl() throws Exception {
        String path = BASE + "/secret";
        CuratorFramework owner = connect(address, 10_000, "bob:secret");
        owner.create().withACL(Ids.CREATOR_ALL_ACL).forPath(path, Talk.bytes("treasure"));
        Id bob = new Id("digest", DigestAuthenticationProvider.generateDigest("bob:secret"));
        Talk.expect("acl", owner.getACL().forPath(path),
                List.of(new ACL(ZooDefs.Perms.ALL, bob)));
        Talk.expect("owner reads", Talk.text(owner.getData().forPath(path)), "treasure");
        Class<? extends Exception> denied = KeeperException.NoAuthException.class;
        Talk.expectError(denied, () -> zk.getData().forPath(path));
        Talk.expectError(denied, () -> zk.setData().forPath(path, Talk.bytes("mine")));
        Talk.expectError(denied, () -> make(path + "/child", ""));
        owner.setACL().withVersion(0).withACL(Ids.OPEN_ACL_UNSAFE).forPath(path);
        Talk.expect("allowed now", Talk.text(zk.getData().forPath(path)), "treasure");
        zk.delete().forPath(path);
        owner.close();
    }

    private void locksAndLeaders() throws Exception {
        CuratorFramework other = connect(address, 10_000, null);
        InterProcessMutex mine = new InterProcessMutex(zk, BASE + "/lock");
        InterProcessMutex theirs = new InterProcessMutex(other, BASE + "/lock");
        Talk.expect("lock", mine.acquire(Talk.PATIENCE, TimeUnit.SECONDS), true);
        Talk.expect("lock twice", mine.acquire(Talk.PATIENCE, TimeUnit.SECONDS), true);
        Talk.expect("taken", theirs.acquire(100, TimeUnit.MILLISECONDS), false);
        mine.release();
        mine.release();
        Talk.expect("free", theirs.acquire(Talk.PATIENCE, TimeUnit.SECONDS), true);
        theirs.release();

        LeaderLatch first = new LeaderLatch(other, BASE + "/leader", "first");
        first.start();
        Talk.expect("first leads", first.await(Talk.PATIENCE, TimeUnit.SECONDS), true);
        LeaderLatch second = new LeaderLatch(zk, BASE + "/leader", "second");
        second.start();
        Talk.expect("leader", second.getLeader().getId(), "first");
        first.close();
        Talk.expect("second leads", second.await(Talk.PATIENCE, TimeUnit.SECONDS), true);
        second.close();

        DistributedAtomicLong counter =
                new DistributedAtomicLong(zk, BASE + "/counter", new RetryNTimes(10, 10));
        Talk.expect("counter", counter.add(5L).succeeded() && counter.increment().succeeded(), true);
        Talk.expect("count", counter.get().postValue(), 6L);

        PersistentNode node = new PersistentNode(other, CreateMode.EPHEMERAL, false,
                BASE + "/member", Talk.bytes("here"));
        node.start();
        Talk.expect("node made", node.waitForInitialCreate(Talk.PATIENCE, TimeUnit.SECONDS), true);
        Talk.expect("member", Talk.text(zk.getData().forPath(BASE + "/member")), "here");
        node.close();
        other.close();
    }

    private void cache() throws Exception {
        String path = BASE + "/cached";
        make(path, "root");
        BlockingQueue<String> changes = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(zk, path);
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(node -> changes.add("created " + node.getPath()))
                .forChanges((old, node) -> changes.add("changed " + node.getPath()))
                .forDeletes(node -> changes.add("deleted " + node.getPath()))
                .forInitialized(() -> changes.add("initialized"))
                .build());
        cache.start();
        next(changes, "created " + path);
        next(changes, "initialized");
        zk.create().creatingParentsIfNeeded().forPath(path + "/a/b", Talk.bytes("1"));
        // What is below the root is read when its event arrives, so the order is free.
        List<String> made = sorted(List.of(next(changes, null), next(changes, null)));
        Talk.expect("made", made, List.of("created " + path + "/a", "created " + path + "/a/b"));
        zk.setData().forPath(path + "/a/b", Talk.bytes("2"));
        next(changes, "changed " + path + "/a/b");
        zk.delete().forPath(path + "/a/b");
        next(changes, "deleted " + path + "/a/b");
        cache.close();
    }

    private static String next(BlockingQueue<String> changes, String wanted) throws Exception {
        String change = changes.poll(Talk.PATIENCE, TimeUnit.SECONDS);
        if (wanted != null) {
            Talk.expect("change", change, wanted);
        }
        return String.valueOf(change);
    }

    /** A restart of the server keeps the session, its ephemeral node, its watches and all data. */
    private void reconnect(String how) throws Exception {
        String path = BASE + "/" + how + "-ephemeral";
        String kept = BASE + "/" + how + "-kept";
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        zk.getConnectionStateListenable().addListener((client, state) -> states.add(state));
        zk.create().withMode(CreateMode.EPHEMERAL).forPath(path, Talk.bytes("mine"));
        make(kept, "kept");
        Watching once = new Watching();
        Stat written = zk.checkExists().usingWatcher(once).forPath(kept);
        long session = session(zk);
        Talk.ask(how);
        ConnectionState state;
        do {
            state = states.poll(Talk.PATIENCE, TimeUnit.SECONDS);
            Talk.expect("session kept", state != null && state != ConnectionState.LOST, true);
        } while (state != ConnectionState.RECONNECTED);
        Talk.expect("session", session(zk), session);
        Stat stat = new Stat();
        Talk.expect("data", Talk.text(zk.getData().storingStatIn(stat).forPath(path)), "mine");
        Talk.expect("owner", stat.getEphemeralOwner(), session);
        Talk.expect("stat kept", zk.checkExists().forPath(kept), written);
        zk.setData().withVersion(0).forPath(kept, Talk.bytes("more"));
        once.expect(NodeDataChanged, kept);
    }

    private void close() throws Exception {
        CuratorFramework other = connect(address, 10_000, null);
        String path = BASE + "/restart-ephemeral";
        Watching watch = new Watching();
        Stat stat = other.checkExists().usingWatcher(watch).forPath(path);
        Talk.expect("owner", stat.getEphemeralOwner(), session(zk));
        zk.close();
        watch.expect(NodeDeleted, path);
        other.delete().deletingChildrenIfNeeded().forPath(BASE);
        Talk.expect("cleaned", other.checkExists().forPath(BASE), null);
        other.close();
    }

    private static List<String> sorted(List<String> names) {
        List<String> sorted = new ArrayList<>(names);
        Collections.sort(sorted);
        return sorted;
    }
}
