import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * How often one session can use each of Curator's recipes.
 *
 * <p>Argument: address. A line on standard input asks for a measurement and a line on standard
 * output answers, as of crates/recipes/examples/uses.rs.
 */
public final class CuratorUses {

    private static final int TIMEOUT_MS = 30_000;
    private static final int CACHED = 500;
    private static final long HOUR_MS = 3_600_000;

    private final CuratorFramework client;
    private final String path;
    private final long nanos;
    private long count;
    private long elapsed;

    private interface Use {
        void once() throws Exception;
    }

    private interface Put {
        void one() throws Exception;
    }

    private CuratorUses(CuratorFramework client, String path, double seconds) {
        this.client = client;
        this.path = path;
        this.nanos = (long) (seconds * 1e9);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(args[0])
                    .sessionTimeoutMs(TIMEOUT_MS)
                    .retryPolicy(new ExponentialBackoffRetry(100, 3))
                    .build();
            client.start();
            client.blockUntilConnected();
            CuratorUses uses = new CuratorUses(client, words[1], Double.parseDouble(words[2]));
            uses.of(words[0]);
            System.out.println(String.format(Locale.ROOT, "%d %f", uses.count, uses.elapsed / 1e9));
            client.close();
        }
    }

    private void repeat(Use use) throws Exception {
        long began = System.nanoTime();
        while (elapsed < nanos) {
            use.once();
            count++;
            elapsed = System.nanoTime() - began;
        }
    }

    private void of(String name) throws Exception {
        switch (name) {
            case "mutex" -> lock(new InterProcessMutex(client, path));
            case "write-lock" -> lock(new InterProcessReadWriteLock(client, path).writeLock());
            case "read-lock" -> lock(new InterProcessReadWriteLock(client, path).readLock());
            case "multi-lock" -> lock(new InterProcessMultiLock(client, List.of(path + "/a", path + "/b")));
            case "semaphore" -> {
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, 2);
                repeat(() -> semaphore.returnLease(semaphore.acquire()));
            }
            case "revoke" -> {
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                mutex.acquire();
                repeat(() -> Revoker.attemptRevoke(client, mutex.getParticipantNodes().iterator().next()));
                mutex.release();
            }
            case "barrier" -> {
                DistributedBarrier barrier = new DistributedBarrier(client, path);
                repeat(() -> {
                    barrier.setBarrier();
                    barrier.removeBarrier();
                });
            }
            case "double-barrier" -> repeat(() -> {
                DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, 1);
                barrier.enter();
                barrier.leave();
            });
            case "count" -> {
                SharedCount shared = new SharedCount(client, path, 0);
                shared.start();
                repeat(() -> shared.trySetCount(shared.getVersionedValue(), (int) count));
                shared.close();
            }
            case "value" -> {
                SharedValue shared = new SharedValue(client, path, bytes("0"));
                shared.start();
                repeat(() -> shared.trySetValue(shared.getVersionedValue(), bytes(Long.toString(count))));
                shared.close();
            }
            case "atomic" -> {
                DistributedAtomicLong atomic =
                        new DistributedAtomicLong(client, path, new ExponentialBackoffRetry(100, 3));
                repeat(atomic::increment);
            }
            case "cache", "node-cache" -> cache(name);
            case "node" -> repeat(() -> {
                PersistentNode node =
                        new PersistentNode(client, CreateMode.EPHEMERAL, false, path + "/n", bytes("1"));
                node.start();
                node.waitForInitialCreate(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                node.close();
            });
            case "ttl-node" -> repeat(() -> {
                PersistentTtlNode node = new PersistentTtlNode(client, path + "/n", HOUR_MS, bytes("1"));
                node.start();
                node.waitForInitialCreate(TIMEOUT_MS, TimeUnit.MILLISECONDS);
                node.close();
            });
            case "group" -> repeat(() -> {
                GroupMember member = new GroupMember(client, path, "one", bytes("1"));
                member.start();
                while (client.checkExists().forPath(path + "/one") == null) {
                    Thread.onSpinWait();
                }
                member.getCurrentMembers();
                member.close();
            });
            case "services", "service-provider" -> services(name);
            case "simple-queue" -> {
                SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
                repeat(() -> {
                    queue.offer(bytes("item"));
                    queue.take();
                });
            }
            default -> queue(name);
        }
    }

    private void lock(InterProcessLock lock) throws Exception {
        repeat(() -> {
            lock.acquire();
            lock.release();
        });
    }

    private void cache(String name) throws Exception {
        for (int number = 0; number < CACHED; number++) {
            try {
                client.create().creatingParentsIfNeeded().forPath(path + "/" + number, bytes("data"));
            } catch (KeeperException.NodeExistsException e) {
                // An earlier measurement has made it.
            }
        }
        repeat(() -> {
            CuratorCache cache = name.equals("cache")
                    ? CuratorCache.build(client, path)
                    : CuratorCache.build(client, path, CuratorCache.Options.SINGLE_NODE_CACHE);
            CountDownLatch complete = new CountDownLatch(1);
            cache.listenable()
                    .addListener(CuratorCacheListener.builder()
                            .forInitialized(complete::countDown)
                            .build());
            cache.start();
            complete.await();
            cache.close();
        });
    }

    private void services(String name) throws Exception {
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder()
                .name("print")
                .id("one")
                .address("10.0.0.1")
                .port(6310)
                .build();
        ServiceDiscovery<Void> discovery = ServiceDiscoveryBuilder.builder(Void.class)
                .client(client)
                .basePath(path)
                .build();
        discovery.start();
        if (name.equals("services")) {
            repeat(() -> {
                discovery.registerService(instance);
                discovery.queryForInstances("print");
                discovery.unregisterService(instance);
            });
        } else {
            discovery.registerService(instance);
            repeat(() -> {
                ServiceProvider<Void> provider =
                        discovery.serviceProviderBuilder().serviceName("print").build();
                provider.start();
                while (provider.getInstance() == null) {
                    Thread.onSpinWait();
                }
                provider.close();
            });
        }
        discovery.close();
    }

    /** A consumer waits for each item. */
    private void queue(String name) throws Exception {
        Semaphore consumed = new Semaphore(0);
        QueueBuilder<String> builder = QueueBuilder.builder(client, new Counts(consumed), new Text(), path)
                .lockPath(path + "-locks");
        QueueBase<String> queue;
        Put put;
        switch (name) {
            case "queue" -> {
                DistributedQueue<String> made = builder.buildQueue();
                queue = made;
                put = () -> made.put("item");
            }
            case "priority-queue" -> {
                DistributedPriorityQueue<String> made = builder.buildPriorityQueue(0);
                queue = made;
                put = () -> made.put("item", 1);
            }
            case "delay-queue" -> {
                DistributedDelayQueue<String> made = builder.buildDelayQueue();
                queue = made;
                put = () -> made.put("item", System.currentTimeMillis());
            }
            case "id-queue" -> {
                DistributedIdQueue<String> made = builder.buildIdQueue();
                queue = made;
                put = () -> made.put("item", "id");
            }
            default -> throw new IllegalArgumentException("what is " + name + "?");
        }
        queue.start();
        repeat(() -> {
            put.one();
            consumed.acquire();
        });
        queue.close();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static final class Counts implements QueueConsumer<String> {
        private final Semaphore consumed;

        Counts(Semaphore consumed) {
            this.consumed = consumed;
        }

        @Override
        public void consumeMessage(String message) {
            consumed.release();
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
