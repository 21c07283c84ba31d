package org.apache.curator.test;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/** Replaces Curator's class of this name for its examples and tests, with Zoarium instead of Java's server. */
public class TestingServer implements Closeable {
    private final Process process;
    private final BufferedReader answers;
    private final String connectString;

    public TestingServer() throws IOException {
        process = new ProcessBuilder("zoarium", "test-server")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = answers.readLine();
        if (line == null) {
            throw new IOException("zoarium test-server has said nothing");
        }
        connectString = line.replaceAll(".*\"connectString\":\"([^\"]*)\".*", "$1");
    }

    public String getConnectString() {
        return connectString;
    }

    public int getPort() {
        return Integer.parseInt(connectString.replaceAll(".*:", ""));
    }

    public void stop() throws IOException {
        command("kill");
    }

    public void restart() throws IOException {
        command("restart");
        command("wait");
    }

    private void command(String line) throws IOException {
        OutputStream commands = process.getOutputStream();
        commands.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        commands.flush();
        String answer = answers.readLine();
        if (answer == null || !answer.contains("\"ok\":true")) {
            throw new IOException(line + ": " + answer);
        }
    }

    /** It ends when its input does. */
    @Override
    public void close() throws IOException {
        process.getOutputStream().close();
        try {
            process.waitFor();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
