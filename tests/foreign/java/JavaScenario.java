import static org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeCreated;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged;
import static org.apache.zookeeper.Watcher.Event.EventType.NodeDeleted;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

/** The common scenario with Apache ZooKeeper's own Java client. */
public final class JavaScenario {

    private static final String BASE = "/java";

    private final String address;
    private final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
    private ZooKeeper zk;

    private JavaScenario(String address) {
        this.address = address;
    }

    public static void main(String[] args) {
        Talk.main(args, JavaScenario::hold, at -> new JavaScenario(at).run());
    }

    private static ZooKeeper connect(String address, int timeout, BlockingQueue<KeeperState> states)
            throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(address, timeout, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
            states.add(event.getState());
        });
        Talk.expect("connected", connected.await(Talk.PATIENCE, TimeUnit.SECONDS), true);
        return zk;
    }

    private ZooKeeper other() throws Exception {
        return connect(address, 10_000, new LinkedBlockingQueue<>());
    }

    private static void hold(String address, String path) throws Exception {
        ZooKeeper zk = connect(address, 2_000, new LinkedBlockingQueue<>());
        zk.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
    }

    private void run() throws Exception {
        Talk.step("connect", () -> {
            zk = connect(address, 10_000, states);
            Talk.expect("negotiated timeout", zk.getSessionTimeout(), 10_000);
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
        Talk.step("persistent-watches", this::persistentWatches);
        Talk.step("node-kinds", this::nodeKinds);
        Talk.step("newer-requests", this::newerRequests);
        Talk.step("restart", () -> reconnect("restart"));
        Talk.step("crash", () -> reconnect("crash"));
        Talk.step("close", this::close);
    }

    private String make(String path, String data) throws Exception {
        return zk.create(path, Talk.bytes(data), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void createRead() throws Exception {
        String path = BASE + "/node";
        Talk.expect("created path", make(path, "first"), path);
        Stat stat = new Stat();
        Talk.expect("data", Talk.text(zk.getData(path, false, stat)), "first");
        Talk.expect("version", stat.getVersion(), 0);
        Talk.expect("dataLength", stat.getDataLength(), 5);
        Talk.expect("ephemeralOwner", stat.getEphemeralOwner(), 0L);
        Talk.expect("czxid is mzxid", stat.getCzxid(), stat.getMzxid());
        Talk.expect("exists", zk.exists(path, false), stat);
        Talk.expect("exists of nothing", zk.exists(BASE + "/nothing", false), null);
        Talk.expectError(KeeperException.NoNodeException.class,
                () -> zk.getData(BASE + "/nothing", false, null));
        Talk.expectError(KeeperException.NoNodeException.class, () -> make(BASE + "/a/b", ""));
        Talk.expectError(KeeperException.NodeExistsException.class, () -> make(path, ""));
        Stat made = new Stat();
        zk.create(BASE + "/stat", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, made);
        Talk.expect("stat of create2", made, zk.exists(BASE + "/stat", false));
        Talk.expect("null data", zk.getData(BASE + "/stat", false, null), null);
        make(BASE + "/empty", "");
        Talk.expect("empty data", zk.getData(BASE + "/empty", false, null).length, 0);
        String large = "0123456789".repeat(80_000);
        make(BASE + "/large", large);
        Talk.expect("large data",
                Talk.text(zk.getData(BASE + "/large", false, null)).equals(large), true);
    }

    private void versions() throws Exception {
        String path = BASE + "/node";
        Stat stat = zk.setData(path, Talk.bytes("second"), 0);
        Talk.expect("version", stat.getVersion(), 1);
        Talk.expect("later mzxid", stat.getMzxid() > stat.getCzxid(), true);
        Talk.expectError(KeeperException.BadVersionException.class,
                () -> zk.setData(path, Talk.bytes("third"), 0));
        Talk.expect("data", Talk.text(zk.getData(path, false, null)), "second");
        Talk.expect("any version", zk.setData(path, Talk.bytes("third"), -1).getVersion(), 2);
        Talk.expectError(KeeperException.BadVersionException.class, () -> zk.delete(path, 1));
        zk.delete(path, 2);
        Talk.expect("deleted", zk.exists(path, false), null);
        Talk.expectError(KeeperException.NoNodeException.class, () -> zk.delete(path, -1));
    }

    private void children() throws Exception {
        String path = BASE + "/parent";
        make(path, "");
        for (String name : List.of("b", "a", "c")) {
            make(path + "/" + name, "");
        }
        Stat stat = new Stat();
        Talk.expect("children", sorted(zk.getChildren(path, false, stat)), List.of("a", "b", "c"));
        Talk.expect("numChildren", stat.getNumChildren(), 3);
        Talk.expect("cversion", stat.getCversion(), 3);
        Talk.expectError(KeeperException.NotEmptyException.class, () -> zk.delete(path, -1));
        zk.delete(path + "/b", -1);
        Talk.expect("children left", sorted(zk.getChildren(path, false)), List.of("a", "c"));
        Talk.expect("no children", zk.getChildren(path + "/a", false), List.of());
    }

    private void sequence() throws Exception {
        String path = BASE + "/queue";
        make(path, "");
        for (int number = 0; number < 3; number++) {
            String made = zk.create(path + "/item-", null, Ids.OPEN_ACL_UNSAFE,
                    CreateMode.PERSISTENT_SEQUENTIAL);
            Talk.expect("sequence node", made, String.format("%s/item-%010d", path, number));
        }
        zk.delete(path + "/item-0000000002", -1);
        String made = zk.create(path + "/", null, Ids.OPEN_ACL_UNSAFE,
                CreateMode.EPHEMERAL_SEQUENTIAL);
        Talk.expect("number not used again", made, path + "/0000000003");
        zk.delete(made, -1);
    }

    private void ephemeralClosed() throws Exception {
        String path = BASE + "/ephemeral";
        ZooKeeper other = other();
        other.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Talk.expectError(KeeperException.NoChildrenForEphemeralsException.class,
                () -> make(path + "/child", ""));
        Watching watch = new Watching();
        Talk.expect("owner", zk.exists(path, watch).getEphemeralOwner(), other.getSessionId());
        other.close();
        watch.expect(NodeDeleted, path);
        Talk.expect("node of a closed session", zk.exists(path, false), null);
    }

    private void ephemeralExpired() throws Exception {
        String path = BASE + "/held";
        Talk.ask("hold " + path);
        Watching watch = new Watching();
        long owner = zk.exists(path, watch).getEphemeralOwner();
        Talk.expect("another's", owner != 0 && owner != zk.getSessionId(), true);
        Talk.ask("kill-holder");
        watch.expect(NodeDeleted, path);
        Talk.expect("node of an expired session", zk.exists(path, false), null);
    }

    private void watches() throws Exception {
        String path = BASE + "/watched";
        Watching watch = new Watching();
        Talk.expect("not there yet", zk.exists(path, watch), null);
        make(path, "0");
        watch.expect(NodeCreated, path);
        zk.setData(path, Talk.bytes("1"), -1);
        zk.sync(path);
        watch.expectNone();
        for (String value : List.of("2", "3")) {
            zk.getData(path, watch, null);
            zk.setData(path, Talk.bytes(value), -1);
            watch.expect(NodeDataChanged, path);
        }
        zk.getChildren(path, watch);
        make(path + "/child", "");
        watch.expect(NodeChildrenChanged, path);
        make(path + "/second", "");
        zk.sync(path);
        watch.expectNone();
        zk.getChildren(path, watch);
        zk.delete(path + "/child", -1);
        watch.expect(NodeChildrenChanged, path);
        zk.delete(path + "/second", -1);
        zk.getData(path, watch, null);
        zk.removeWatches(path, watch, WatcherType.Data, false);
        // Taking a watch away is told to it once.
        watch.expect(org.apache.zookeeper.Watcher.Event.EventType.DataWatchRemoved, path);
        zk.setData(path, Talk.bytes("4"), -1);
        zk.sync(path);
        watch.expectNone();
        zk.getData(path, watch, null);
        zk.delete(path, -1);
        watch.expect(NodeDeleted, path);
    }

    private void multi() throws Exception {
        String path = BASE + "/multi";
        List<OpResult> results = zk.multi(List.of(
                Op.create(path, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.create(path + "/a", Talk.bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.check(path, 0),
                Op.setData(path + "/a", Talk.bytes("2"), 0),
                Op.create(path + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL),
                Op.delete(path + "/a", 1)));
        Talk.expect("made", ((OpResult.CreateResult) results.get(1)).getPath(), path + "/a");
        Talk.expect("set", ((OpResult.SetDataResult) results.get(3)).getStat().getVersion(), 1);
        Talk.expect("sequence", ((OpResult.CreateResult) results.get(4)).getPath(),
                path + "/s-0000000001");
        Talk.expect("children", zk.getChildren(path, false), List.of("s-0000000001"));
        try {
            zk.multi(List.of(
                    Op.create(path + "/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                    Op.setData(path, Talk.bytes("no"), 7),
                    Op.create(path + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)));
            throw new Talk.Failed("a multi with a bad version succeeded");
        } catch (KeeperException.BadVersionException error) {
            List<Integer> codes = new ArrayList<>();
            for (OpResult result : error.getResults()) {
                codes.add(((OpResult.ErrorResult) result).getErr());
            }
            Talk.expect("codes", codes, List.of(0, -103, -2));
        }
        Talk.expect("nothing of it happened", zk.getChildren(path, false), List.of("s-0000000001"));
        Talk.expect("data", zk.getData(path, false, null), null);
    }

    private void acl() throws Exception {
        String path = BASE + "/secret";
        ZooKeeper owner = other();
        owner.addAuthInfo("digest", Talk.bytes("bob:secret"));
        owner.create(path, Talk.bytes("treasure"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Stat stat = new Stat();
        ACL all = new ACL(ZooDefs.Perms.ALL,
                new Id("digest", DigestAuthenticationProvider.generateDigest("bob:secret")));
        Talk.expect("acl", owner.getACL(path, stat), List.of(all));
        Talk.expect("aversion", stat.getAversion(), 0);
        Talk.expect("owner reads", Talk.text(owner.getData(path, false, null)), "treasure");
        Class<? extends Exception> denied = KeeperException.NoAuthException.class;
        Talk.expectError(denied, () -> zk.getData(path, false, null));
        Talk.expectError(denied, () -> zk.setData(path, Talk.bytes("mine"), -1));
        Talk.expectError(denied, () -> zk.getChildren(path, false));
        Talk.expectError(denied, () -> make(path + "/child", ""));
        Talk.expectError(denied, () -> zk.setACL(path, Ids.OPEN_ACL_UNSAFE, -1));
        zk.addAuthInfo("digest", Talk.bytes("eve:guess"));
        Talk.expectError(denied, () -> zk.getData(path, false, null));
        ACL read = new ACL(ZooDefs.Perms.READ,
                new Id("digest", DigestAuthenticationProvider.generateDigest("eve:guess")));
        Talk.expect("aversion", owner.setACL(path, Arrays.asList(all, read), 0).getAversion(), 1);
        Talk.expect("allowed now", Talk.text(zk.getData(path, false, null)), "treasure");
        Talk.expectError(denied, () -> zk.setData(path, Talk.bytes("mine"), -1));
        owner.delete(path, -1);
        List<String> identities = new ArrayList<>();
        for (ClientInfo info : zk.whoAmI()) {
            identities.add(info.getAuthScheme() + " " + info.getUser());
        }
        Talk.expect("identities", sorted(identities), List.of("digest eve", "ip 127.0.0.1"));
        owner.close();
    }

    private void persistentWatches() throws Exception {
        String path = BASE + "/persistent";
        make(path, "");
        Watching one = new Watching();
        Watching tree = new Watching();
        zk.addWatch(path, one, AddWatchMode.PERSISTENT);
        zk.addWatch(path, tree, AddWatchMode.PERSISTENT_RECURSIVE);
        for (int round = 0; round < 2; round++) {
            zk.setData(path, null, -1);
            one.expect(NodeDataChanged, path);
            tree.expect(NodeDataChanged, path);
            make(path + "/a", "");
            one.expect(NodeChildrenChanged, path);
            tree.expect(NodeCreated, path + "/a");
            make(path + "/a/b", "");
            tree.expect(NodeCreated, path + "/a/b");
            zk.setData(path + "/a/b", Talk.bytes("deep"), -1);
            tree.expect(NodeDataChanged, path + "/a/b");
            zk.delete(path + "/a/b", -1);
            tree.expect(NodeDeleted, path + "/a/b");
            zk.delete(path + "/a", -1);
            one.expect(NodeChildrenChanged, path);
            tree.expect(NodeDeleted, path + "/a");
        }
        zk.removeWatches(path, one, WatcherType.Any, false);
        zk.removeWatches(path, tree, WatcherType.Any, false);
        zk.delete(path, -1);
    }

    private void nodeKinds() throws Exception {
        String container = BASE + "/container";
        Stat stat = new Stat();
        zk.create(container, null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, stat);
        Talk.expect("owner shown of a container", stat.getEphemeralOwner(), 0L);
        make(container + "/child", "");
        Watching watch = new Watching();
        zk.exists(container, watch);
        zk.delete(container + "/child", -1);
        // The test starts the server with frequent looks for such nodes.
        watch.expect(NodeDeleted, container);

        String kept = BASE + "/ttl-kept";
        zk.create(kept, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 3_600_000);
        Talk.expect("owner shown of a TTL node", stat.getEphemeralOwner(), 0L);
        String shortLived = zk.create(BASE + "/ttl-", null, Ids.OPEN_ACL_UNSAFE,
                CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 300);
        Talk.expect("name", shortLived.length(), (BASE + "/ttl-0123456789").length());
        if (zk.exists(shortLived, watch) != null) {
            watch.expect(NodeDeleted, shortLived);
        }
        Talk.expect("node with time left", zk.exists(kept, false) != null, true);
    }

    private void newerRequests() throws Exception {
        ZooKeeper other = other();
        String path = BASE + "/newer";
        make(path, "");
        for (String name : List.of("/x", "/y")) {
            other.create(path + name, null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        }
        Talk.expect("ephemerals", sorted(other.getEphemerals()), List.of(path + "/x", path + "/y"));
        Talk.expect("below", other.getEphemerals(BASE + "/nothing"), List.of());
        Talk.expect("all children", zk.getAllChildrenNumber(path), 2);
        List<OpResult> read = zk.multi(List.of(Op.getChildren(path), Op.getData(BASE + "/large"),
                Op.getData(BASE + "/nothing")));
        Talk.expect("children", sorted(((OpResult.GetChildrenResult) read.get(0)).getChildren()),
                List.of("x", "y"));
        Talk.expect("data", ((OpResult.GetDataResult) read.get(1)).getData().length, 800_000);
        Talk.expect("error", ((OpResult.ErrorResult) read.get(2)).getErr(), -101);
        other.close();
        Talk.expect("config of a lone server", Talk.text(zk.getConfig(false, null)), "");
    }

    /** A restart of the server keeps the session, its ephemeral node, its watches and all data. */
    private void reconnect(String how) throws Exception {
        String path = BASE + "/" + how + "-ephemeral";
        String kept = BASE + "/" + how + "-kept";
        zk.create(path, Talk.bytes("mine"), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Stat written = new Stat();
        zk.create(kept, Talk.bytes("kept"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, written);
        Watching once = new Watching();
        Watching always = new Watching();
        zk.getData(kept, once, null);
        zk.addWatch(kept, always, AddWatchMode.PERSISTENT);
        long session = zk.getSessionId();
        states.clear();
        Talk.ask(how);
        KeeperState state;
        do {
            state = states.poll(Talk.PATIENCE, TimeUnit.SECONDS);
            Talk.expect("session kept", state != null && state != KeeperState.Expired, true);
        } while (state != KeeperState.SyncConnected);
        Talk.expect("session", zk.getSessionId(), session);
        Stat stat = new Stat();
        Talk.expect("data of the ephemeral", Talk.text(zk.getData(path, false, stat)), "mine");
        Talk.expect("its owner", stat.getEphemeralOwner(), session);
        Talk.expect("data kept", Talk.text(zk.getData(kept, false, stat)), "kept");
        Talk.expect("stat kept", stat, written);
        long mzxid = zk.setData(kept, Talk.bytes("more"), 0).getMzxid();
        Talk.expect("writes go on", mzxid > written.getMzxid(), true);
        once.expect(NodeDataChanged, kept);
        always.expect(NodeDataChanged, kept);
        zk.removeWatches(kept, always, WatcherType.Any, false);
    }

    private void close() throws Exception {
        ZooKeeper other = other();
        String path = BASE + "/restart-ephemeral";
        Watching watch = new Watching();
        Talk.expect("owner", other.exists(path, watch).getEphemeralOwner(), zk.getSessionId());
        zk.close();
        watch.expect(NodeDeleted, path);
        ZKUtil.deleteRecursive(other, BASE);
        Talk.expect("cleaned", other.exists(BASE, false), null);
        other.close();
    }

    private static List<String> sorted(List<String> names) {
        List<String> sorted = new ArrayList<>(names);
        Collections.sort(sorted);
        return sorted;
    }
}
