package org.apache.curator.test;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;

/** What Curator's examples use of its class of this name, with Zoarium behind it. */
public class TestingServer implements Closeable {
    private final Process process;
    private final String connectString;

    public TestingServer() throws IOException {
        process = new ProcessBuilder("zoarium", "test-server")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        if (line == null) {
            throw new IOException("zoarium test-server has said nothing");
        }
        connectString = line.replaceAll(".*\"connectString\":\"([^\"]*)\".*", "$1");
    }

    public String getConnectString() {
        return connectString;
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
