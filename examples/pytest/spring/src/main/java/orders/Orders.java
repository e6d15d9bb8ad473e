// The application under test: sends orders until its standard input ends, and reads them in a group. It prints
// `acknowledged N` for each order that a broker has confirmed, and `read N` for each that its listener has processed.
package orders;

import java.io.OutputStream;
import java.util.concurrent.CompletableFuture;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

@SpringBootApplication
public class Orders implements CommandLineRunner {
    private final KafkaTemplate<String, String> kafka;
    private final String topic;
    private volatile boolean stopped;

    public Orders(KafkaTemplate<String, String> kafka, @Value("${orders.topic}") String topic) {
        this.kafka = kafka;
        this.topic = topic;
    }

    public static void main(String[] arguments) {
        SpringApplication.exit(SpringApplication.run(Orders.class, arguments));
    }

    @KafkaListener(topics = "${orders.topic}")
    public void read(String order) {
        System.out.println("read " + order);
    }

    @Override
    public void run(String... arguments) throws Exception {
        Thread sender = new Thread(this::send);
        sender.start();
        System.in.transferTo(OutputStream.nullOutputStream());
        stopped = true;
        sender.join();
    }

    private void send() {
        CompletableFuture<?> last = CompletableFuture.completedFuture(null);
        for (int number = 0; !stopped; number++) {
            String order = Integer.toString(number);
            last = kafka.send(topic, order).whenComplete((result, error) -> {
                if (error == null) {
                    System.out.println("acknowledged " + order);
                } else {
                    System.err.println(error); // nobody was told that it is safe
                }
            });
            try {
                Thread.sleep(5);
            } catch (InterruptedException ended) {
                return;
            }
        }
        kafka.flush();
        last.handle((result, error) -> null).join();
    }
}
