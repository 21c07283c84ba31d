import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** What only one identity may touch is its own again after a restart: HOST:PORT protected SCHEME:ID. */
public final class JavaProtected {

    private static final String BASE = "/java";
    private static final String PATH = BASE + "/protected";
    private static final String MINE = BASE + "/mine";

    private final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
    private final String[] entry;
    private ZooKeeper zk;
    private List<ACL> acl;

    private JavaProtected(String entry) {
        this.entry = entry.split(":", 2);
    }

    public static void main(String[] args) {
        Talk.main(args, null, address -> new JavaProtected(args[2]).run(address));
    }

    private void run(String address) throws Exception {
        Talk.step("connect", () -> connect(address));
        Talk.step("protected", this::protect);
        Talk.step("restart", this::restart);
        Talk.step("close", this::close);
    }

    private void connect(String address) throws Exception {
        zk = new ZooKeeper(address, 10_000, event -> states.add(event.getState()));
        await(KeeperState.SyncConnected);
        zk.create(BASE, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void await(KeeperState wanted) throws Exception {
        KeeperState state;
        do {
            state = states.poll(Talk.PATIENCE, TimeUnit.SECONDS);
            boolean lost = state == null || state == KeeperState.Expired || state == KeeperState.AuthFailed;
            Talk.expect("no connection, but " + state, lost, false);
        } while (state != wanted);
    }

    private void protect() throws Exception {
        if (entry[0].equals("digest")) {
            zk.addAuthInfo("digest", Talk.bytes("bob:secret"));
        }
        // The client looks for null in it, which List.of does not bear.
        acl = Collections.singletonList(new ACL(ZooDefs.Perms.ALL, new Id(entry[0], entry[1])));
        zk.create(PATH, Talk.bytes("treasure"), acl, CreateMode.PERSISTENT);
        Talk.expect("acl", zk.getACL(PATH, new Stat()), acl);
        Talk.expect("owner reads", Talk.text(zk.getData(PATH, false, null)), "treasure");
        Talk.ask("stranger " + PATH);
    }

    private void restart() throws Exception {
        zk.create(MINE, new byte[0], acl, CreateMode.EPHEMERAL);
        long session = zk.getSessionId();
        states.clear();
        Talk.ask("restart");
        await(KeeperState.SyncConnected);
        Talk.expect("session", zk.getSessionId(), session);
        Stat stat = new Stat();
        zk.getData(MINE, false, stat);
        Talk.expect("its owner", stat.getEphemeralOwner(), session);
        Talk.expect("owner still reads", Talk.text(zk.getData(PATH, false, null)), "treasure");
        zk.setData(PATH, Talk.bytes("more"), 0);
        Talk.ask("stranger " + PATH);
    }

    private void close() throws Exception {
        for (String path : List.of(MINE, PATH, BASE)) {
            zk.delete(path, -1);
        }
        zk.close();
    }
}
