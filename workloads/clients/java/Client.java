/**
 * Apache Kafka's Java client in the parts that the harness needs, a JVM each:
 *   java Client load              a producer or consumer of the load, driven through its standard streams (Load.java)
 *   java Client member FILE       a member of a consumer group (Member.java)
 *   java Client copier FILE       a member that copies in transactions (Copier.java)
 *   java Client share FILE        a member of a share group (Sharer.java)
 */
public final class Client {
    private Client() {
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments.length == 0 ? "" : arguments[0];
        if (mode.equals("load") && arguments.length == 1) {
            Load.run();
            System.exit(0);
        } else if ((mode.equals("member") || mode.equals("copier") || mode.equals("share")) && arguments.length == 2) {
            Member.run(arguments[1], mode);
        } else {
            System.err.println("usage: java Client load | member FILE | copier FILE | share FILE; got: " + String.join(" ", arguments));
            System.exit(2);
        }
    }
}
