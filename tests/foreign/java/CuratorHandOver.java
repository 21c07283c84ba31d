import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * How quickly a lock and a leadership change hands with Curator's InterProcessMutex and LeaderLatch.
 *
 * <p>Argument: the address. A line on standard input asks for a measurement and a line on standard
 * output answers, as of crates/recipes/examples/hand_over.rs.
 */
public final class CuratorHandOver {

    private static final int TIMEOUT_MS = 30_000;
    private static final int REST_MS = 20;

    private final String address;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private CuratorHandOver(String address) {
        this.address = address;
    }

    public static void main(String[] args) throws Exception {
        CuratorHandOver program = new CuratorHandOver(args[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("lock")) {
                double seconds = Double.parseDouble(words[2]);
                System.out.println(program.takeTurns(words[1], seconds, Integer.parseInt(words[3])));
            } else {
                System.out.println(program.changeLeaders(words[1], Integer.parseInt(words[2])));
            }
        }
        program.threads.shutdown();
    }

    private CuratorFramework connect() throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(address)
                .sessionTimeoutMs(TIMEOUT_MS)
                .retryPolicy(new ExponentialBackoffRetry(100, 3))
                .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    /** Each session takes the lock and lets go at once, again and again. */
    private String takeTurns(String path, double seconds, int sessions) throws Exception {
        List<CuratorFramework> clients = new ArrayList<>();
        for (int number = 0; number < sessions; number++) {
            clients.add(connect());
        }
        long began = System.nanoTime();
        long end = began + (long) (seconds * 1e9);
        List<Future<long[]>> turns = new ArrayList<>();
        for (CuratorFramework client : clients) {
            turns.add(threads.submit(() -> {
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                long taken = 0;
                while (System.nanoTime() < end) {
                    mutex.acquire();
                    mutex.release();
                    taken++;
                }
                long elapsed = System.nanoTime() - began;
                client.close();
                return new long[] {taken, elapsed};
            }));
        }
        long taken = 0;
        long elapsed = 0;
        for (Future<long[]> turn : turns) {
            taken += turn.get()[0];
            elapsed = Math.max(elapsed, turn.get()[1]);
        }
        return String.format(Locale.ROOT, "%d %f", taken, elapsed / 1e9);
    }

    /** Two candidates; whoever leads closes, and stands again when the other one leads. */
    private String changeLeaders(String path, int rounds) throws Exception {
        CuratorFramework[] clients = {connect(), connect()};
        List<String> times = new ArrayList<>();
        LeaderLatch leader = new LeaderLatch(clients[0], path);
        leader.start();
        leader.await();
        for (int round = 1; round <= rounds; round++) {
            LeaderLatch next = new LeaderLatch(clients[round % 2], path);
            next.start();
            LeaderLatch closed = leader;
            Thread.sleep(REST_MS);
            long began = System.nanoTime();
            Future<?> closing = threads.submit(() -> {
                closed.close();
                return null;
            });
            next.await();
            times.add(Long.toString((System.nanoTime() - began) / 1000));
            closing.get();
            leader = next;
        }
        leader.close();
        for (CuratorFramework client : clients) {
            client.close();
        }
        return String.join(" ", times);
    }
}
