import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ClientInfo;

/** Logs in by the section Client of the JAAS file and tells how that went: address, znode. */
public class SaslLogin {
    public static void main(String[] arguments) throws Exception {
        LinkedBlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();
        ZooKeeper client = new ZooKeeper(arguments[0], 30000, event -> states.add(event.getState()));
        while (true) {
            KeeperState state = states.poll(60, TimeUnit.SECONDS);
            if (state == KeeperState.SyncConnected) {
                continue;
            }
            System.out.println("login " + state);
            if (state != KeeperState.SaslAuthenticated) {
                System.exit(0);
            }
            break;
        }
        List<ClientInfo> whoami = client.whoAmI();
        for (ClientInfo info : whoami) {
            System.out.println("whoami " + info.getAuthScheme() + " " + info.getUser());
        }
        String path = arguments[1];
        try {
            client.create(path, new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            System.out.println("create ok");
        } catch (KeeperException error) {
            System.out.println("create " + error.code());
        }
        try {
            client.getData(path, false, null);
            System.out.println("read ok");
        } catch (KeeperException error) {
            System.out.println("read " + error.code());
        }
        client.close();
    }
}
