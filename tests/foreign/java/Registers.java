import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Reads and writes registers with Java's client. Its calls and replies are those of registers.py. */
final class Registers {

    private static final int CONNECT_S = 30;
    private static final Set<KeeperException.Code> REFUSALS = Set.of(
            KeeperException.Code.BADVERSION, KeeperException.Code.NODEEXISTS, KeeperException.Code.NONODE);

    private Registers() {
    }

    private static String answer(ZooKeeper client, String[] words) throws Exception {
        String path = words[1];
        switch (words[0]) {
            case "create":
                client.create(path, bytes(words[2]), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                return "ok 0 " + words[2];
            case "read":
                client.setData(words[2], bytes(""), -1);
                Stat stat = new Stat();
                byte[] data = client.getData(path, false, stat);
                return "ok " + stat.getVersion() + " " + new String(data, StandardCharsets.UTF_8);
            default:
                Stat written = client.setData(path, bytes(words[2]), Integer.parseInt(words[3]));
                return "ok " + written.getVersion() + " " + words[2];
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(arguments[0], Integer.parseInt(arguments[1]), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(CONNECT_S, TimeUnit.SECONDS)) {
            System.exit(1);
        }
        Talk.say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                Talk.say(answer(client, line.split(" ")));
            } catch (KeeperException error) {
                boolean isRefusal = REFUSALS.contains(error.code());
                Talk.say(isRefusal ? "refused " + error.code().intValue() : "unknown " + error.code());
            }
        }
        client.close();
    }
}
