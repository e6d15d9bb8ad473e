import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Frames over standard input and output, as Load.java describes them. Any thread may write; one reads. */
final class Frames {
    private static final int FRAME_BYTES_MAX = 128 << 20;

    private final OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
    private final DataInputStream in =
        new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16));

    /** Null at the end of the input. */
    ByteBuffer read() throws IOException {
        try {
            int length = Integer.reverseBytes(in.readInt());
            if (length < 1 || length > FRAME_BYTES_MAX) {
                throw new IOException("a frame of " + length + " bytes");
            }
            byte[] contents = new byte[length];
            in.readFully(contents);
            return ByteBuffer.wrap(contents).order(ByteOrder.LITTLE_ENDIAN);
        } catch (EOFException end) {
            return null;
        }
    }

    void write(char kind, byte[] contents) throws IOException {
        ByteBuffer head = newBuffer(5).putInt(contents.length + 1).put((byte) kind);
        synchronized (out) {
            out.write(head.array());
            out.write(contents);
            out.flush();
        }
    }

    void writeWords(char kind, List<String> words) throws IOException {
        write(kind, packed(words));
    }

    static List<String> strings(ByteBuffer buffer) {
        List<String> words = new ArrayList<>();
        while (buffer.hasRemaining()) {
            words.add(new String(bytes(buffer), StandardCharsets.UTF_8));
        }
        return words;
    }

    private static byte[] packed(List<String> words) {
        List<byte[]> parts = new ArrayList<>();
        int size = 0;
        for (String word : words) {
            byte[] part = word.getBytes(StandardCharsets.UTF_8);
            parts.add(part);
            size += 4 + part.length;
        }
        ByteBuffer buffer = newBuffer(size);
        for (byte[] part : parts) {
            buffer.putInt(part.length).put(part);
        }
        return buffer.array();
    }

    /** Null where the length is negative. */
    static byte[] bytes(ByteBuffer buffer) {
        int length = buffer.getInt();
        if (length < 0) {
            return null;
        }
        byte[] found = new byte[length];
        buffer.get(found);
        return found;
    }

    static ByteBuffer newBuffer(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }
}
