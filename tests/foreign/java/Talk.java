import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** What a scenario says to the test that runs it (see tests/src/scenario.rs), and its checks. */
final class Talk {

    /** How long anything may take that is expected to happen, in seconds. */
    static final int PATIENCE = 30;

    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Talk() {
    }

    /** An expectation that did not hold. */
    static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failed(String reason) {
            super(reason);
        }
    }

    interface Action {
        void run() throws Exception;
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void ask(String request) throws IOException {
        say("ask " + request);
        expect("answer to " + request, INPUT.readLine(), "done");
    }

    static void step(String name, Action action) throws Exception {
        say("step " + name);
        action.run();
    }

    static void expect(String what, Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new Failed(what + ": " + got + " instead of " + wanted);
        }
    }

    static void expectError(Class<? extends Exception> kind, Action action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            if (kind.isInstance(error)) {
                return;
            }
            throw error;
        }
        throw new Failed("success instead of " + kind.getSimpleName());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /** Runs the holder or the scenario by the command line, and ends the process. */
    static void main(String[] args, Holder holder, Main scenario) {
        try {
            if (args.length > 1 && args[1].equals("hold")) {
                holder.hold(args[0], args[2]);
                say("holding");
                Thread.currentThread().join();
            } else {
                scenario.run(args[0]);
                say("passed");
                System.exit(0);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            say("failed " + error.toString().replace('\n', ' '));
            System.exit(1);
        }
    }

    interface Holder {
        void hold(String address, String path) throws Exception;
    }

    interface Main {
        void run(String address) throws Exception;
    }
}
