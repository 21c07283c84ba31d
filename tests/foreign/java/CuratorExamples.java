import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import leader.LeaderSelectorExample;
import locking.LockingExample;

/**
 * Runs an example of Curator's as it is: {@code leader} until each client has been leader, which is when
 * somebody at the keyboard would press return, or {@code locking}.
 */
public final class CuratorExamples {
    private static final int CLIENTS = 10;
    private static final int PATIENCE_MINUTES = 4;

    private CuratorExamples() {}

    public static void main(String[] args) throws Exception {
        if (args[0].equals("leader")) {
            Leaders leaders = new Leaders(System.out);
            System.setOut(new PrintStream(leaders, true));
            System.setIn(leaders.keyboard());
            LeaderSelectorExample.main(new String[0]);
        } else {
            LockingExample.main(new String[0]);
        }
        System.out.println("done");
        // The example leaves no threads that are to be waited for.
        System.exit(0);
    }

    /** Passes on what is printed, and counts the clients that say that they lead. */
    private static final class Leaders extends OutputStream {
        private final OutputStream out;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();
        private final Set<String> names = ConcurrentHashMap.newKeySet();
        private final CountDownLatch all = new CountDownLatch(CLIENTS);

        Leaders(OutputStream out) {
            this.out = out;
        }

        @Override
        public synchronized void write(int written) throws java.io.IOException {
            out.write(written);
            if (written != '\n') {
                line.write(written);
                return;
            }
            String[] parts = line.toString().split(" is now the leader");
            line.reset();
            if (parts.length == 2 && names.add(parts[0])) {
                all.countDown();
            }
        }

        InputStream keyboard() {
            return new InputStream() {
                @Override
                public int read() {
                    try {
                        boolean isWhole = all.await(PATIENCE_MINUTES, TimeUnit.MINUTES);
                        return isWhole ? '\n' : -1;
                    } catch (InterruptedException interrupted) {
                        return -1;
                    }
                }
            };
        }
    }
}
