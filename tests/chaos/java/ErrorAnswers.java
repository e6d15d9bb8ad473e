import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;

/** Reads lines of "error code, request frame in hex". Writes Kafka's own error response, its body in hex, or why there is none. */
public class ErrorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ");
            String answer;
            try {
                ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]));
                frame.getInt();
                RequestHeader header = RequestHeader.parse(frame);
                AbstractRequest request = AbstractRequest.parseRequest(
                    header.apiKey(), header.apiVersion(), new ByteBufferAccessor(frame)).request;
                AbstractResponse response = request.getErrorResponse(0, Errors.forCode(Short.parseShort(parts[0])).exception());
                if (response == null) {
                    answer = "none";
                } else {
                    ByteBuffer body = MessageUtil.toByteBufferAccessor(response.data(), header.apiVersion()).buffer();
                    byte[] bytes = new byte[body.remaining()];
                    body.get(bytes);
                    answer = "ok " + HexFormat.of().formatHex(bytes);
                }
            } catch (Throwable problem) {
                answer = "error " + problem;
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }
}
